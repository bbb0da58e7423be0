"""Tables of statistical tests between methods, and of spreads over seeds."""

from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.analysis import significance
from subtune.analysis.reproduction import of_exhibits
from subtune.exhibits.tables.writing import DIVERGED


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return `subtune.analysis.significance.paired_tests`, rounded to four digits."""
    return significance.paired_tests(chosen).round(4)


def repeat_variance(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return `subtune.analysis.significance.repeat_variance`, rounded to six digits."""
    table = significance.repeat_variance(chosen).round(6)
    return table.astype({"mean": object}).fillna({"mean": DIVERGED})


def kruskal_wallis(
    dev: pd.DataFrame,
    printed: pd.DataFrame,
    printed_scores: pd.DataFrame,
    methods: Sequence[str],
    exhibits: Mapping[str, Sequence[str]],
    test: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Compare two methods on our scores, and on a paper's dev scores, test scores and both.

    Args:
        dev: the runs of the best learning rates.
        printed: ``scores`` and ``p_value``, which stands as ``reported`` where it is printed.
        printed_scores: the paper's scores.
        methods: the two.
        exhibits: what the paper's scores are called, dev first, to where they are printed.
        test: as ``dev``, with test scores.
    """
    names = [name.partition(" ")[0] for name in exhibits]
    parts = dict(exhibits) | {" + ".join(names): [e for some in exhibits.values() for e in some]}
    ours = [significance.scores_of(methods, table) for table in (dev, test) if table is not None]
    if test is not None:
        ours.append(pd.concat(ours))
    rows = [
        (
            f"this run's {name.replace('table', 'table ')}",
            *_tested([scores[method].tolist() for method in methods]),
            None,
        )
        for name, scores in zip(parts, ours, strict=False)
        if len(scores)
    ]
    p_values = printed.set_index("scores")["p_value"]
    for name, tables in parts.items():
        scores = of_exhibits(printed_scores, tables)
        groups = [scores.loc[scores["method"] == m, "value"].tolist() for m in methods]
        rows.append((f"paper's {name}", *_tested(groups), p_values[name]))
    counts = [f"n_{method}" for method in methods]
    return pd.DataFrame(rows, columns=["scores", *counts, "p_value", "reported"])


def _tested(groups: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return *map(len, groups), significance.kruskal_wallis(*groups)
