"""Tests of whether methods differ."""

import itertools
from collections.abc import Iterable, Sequence

import pandas as pd
from scipy import stats

from subtune import reported
from subtune.analysis.scores import by_method, methods_only


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """P-value of the Kruskal–Wallis test between two groups of scores."""
    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def kruskal_wallis_table(chosen: pd.DataFrame, test: pd.DataFrame | None = None) -> pd.DataFrame:
    """BitFit against LayerNorm: on our scores, and on the paper's Tables 2, 3 and both.

    ``reported`` holds the printed p-value where there is one.

    Args:
        chosen: the runs of the best learning rates.
        test: the same with test scores, from `subtune.analysis.server_scores.as_chosen`.
    """
    pair = ("bitfit", "layernorm")
    own = {"table 2 (validation)": _scores_of(pair, chosen)}
    if test is not None:
        own["table 3 (test)"] = _scores_of(pair, test)
        both = zip(*own.values(), strict=True)
        own["table 2 + table 3"] = [dev + tested for dev, tested in both]
    rows = [
        (f"this run's {name}", *map(len, scores), kruskal_wallis(*scores), None)
        for name, scores in own.items()
        if all(scores)
    ]
    printed = reported.table("kruskal_wallis.csv").set_index("scores")["p_value"]
    exhibits = {
        "table2 (validation)": ["table2"],
        "table3 (test)": ["table3"],
        "table2 + table3": ["table2", "table3"],
    }
    for name, tables in exhibits.items():
        scores = pd.concat([reported.scores("layernorm", table) for table in tables])
        groups = [scores.loc[scores["method"] == m, "value"].tolist() for m in pair]
        rows.append((f"paper's {name}", *map(len, groups), kruskal_wallis(*groups), printed[name]))
    return pd.DataFrame(rows, columns=["scores", "n_bitfit", "n_layernorm", "p_value", "reported"])


def _scores_of(methods: Iterable[str], chosen: pd.DataFrame) -> list[list[float]]:
    """Each method's scores, column by column, of means over seeds."""
    means = methods_only(chosen).groupby(["method", "column"])["value"].mean()
    known = means.index.get_level_values("method")
    return [means.loc[method].tolist() if method in known else [] for method in methods]


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Wilcoxon signed-rank test of each pair of methods, paired by model and column of the tables.

    Returns:
        ``first``, ``second``, ``pairs`` (how many columns both have), ``mean_difference`` (first
        minus second, of means over seeds), ``p_value`` (two-sided; 1 where nothing differs, empty
        with fewer than two pairs).
    """
    means = by_method(chosen)
    rows = []
    for first, second in itertools.combinations(chosen["method"].drop_duplicates(), 2):
        if first in means and second in means:
            both = means[[first, second]].dropna()
            difference = both[first] - both[second]
            rows.append((first, second, len(both), difference.mean(), wilcoxon(difference)))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "mean_difference", "p_value"])


def wilcoxon(difference: pd.Series) -> float | None:
    """Two-sided p-value of the signed-rank test: 1 where nothing differs, none of less than two."""
    if len(difference) < 2:
        return None
    return 1.0 if (difference == 0).all() else float(stats.wilcoxon(difference).pvalue)


def repeat_variance(chosen: pd.DataFrame) -> pd.DataFrame:
    """The spread over seeds of every method that was run more than once on a task.

    Returns:
        ``model``, ``column``, ``method``, ``seeds``, ``mean``, ``variance``, ``standard_deviation``
        (both with one degree of freedom less than seeds).
    """
    groups = methods_only(chosen).groupby(["model", "column", "method"], sort=False)["value"]
    table = groups.agg(seeds="size", mean="mean", variance="var", standard_deviation="std")
    return table[table["seeds"] > 1].reset_index()
