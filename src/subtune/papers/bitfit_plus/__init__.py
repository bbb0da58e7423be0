"""BitFit+: a replication of BitFit, with ablations of biases and LayerNorm weights."""

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.analysis.chosen_runs import drop_runs_with_mask, pivot_methods
from subtune.analysis.statistics import (
    FEWEST_PAIRS,
    average_changes,
    drop_columns_with_diverged_runs,
    empty_values,
    method_scores,
    minus,
    minus_printed,
    rank_correlation,
    split_families,
)
from subtune.exhibits.figures import declare_change_heat_map
from subtune.exhibits.output import DIVERGED, ExperimentResults, Needs, Table
from subtune.exhibits.score_tables import dev_score_table
from subtune.papers.paper import Paper, read_claims

# Methods whose scores the paper cites from another paper.
QUOTED = {"full": "Full (from the BitFit paper)"}
ABLATIONS = (
    *("g_LN1", "g_LN2", "g_LN1,g_LN2", "rand_bias", "bitfit without b_m2,b_q"),
    *("bitfit,g_LN1,g_LN2", "b_m2,b_q,g_LN1,g_LN2", "b_LN1,b_LN2"),
)


def variance_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the variance of scores over seeds (``seeds - 1`` degrees of freedom) by task."""
    chosen = drop_runs_with_mask(results["chosen"])
    groups = chosen.groupby(["model", "column", "method"], sort=False)["value"]
    table = groups.agg(seeds="size", mean="mean", variance="var", standard_deviation="std")
    table = table[table["seeds"] > 1].reset_index().round(6)
    return table.astype({"mean": object}).fillna({"mean": DIVERGED})


EXHIBITS = (
    dev_score_table(
        "figure3",
        "Replications",
        ["figure3", "figure3 (original paper, in parentheses)"],
        quoted=QUOTED,
    ),
    declare_change_heat_map("figure4", "Changes in the biases, RTE", "bitfit", "rte"),
    declare_change_heat_map("figure5", "Changes in the biases, MRPC", "bitfit", "mrpc"),
    declare_change_heat_map("figure6", "Changes in the biases, CoLA", "bitfit", "cola"),
    dev_score_table(
        "figure7", "Ablations", ["figure3", "figure7 (averages quoted in the text)"], quoted=QUOTED
    ),
    Table(
        "repeat_variance",
        "Variance over seeds",
        "The table lists the variance and the standard deviation of dev scores over seeds. The "
        "paper repeats only b_m2,b_q on RTE (three runs), and reports a variance of 1.04 % in "
        "accuracy.",
        make=variance_table,
        needs=Needs(seeds=2),
    ),
    *(
        declare_change_heat_map(f"figure{number}", f"Changes, {method}, RTE", method, "rte")
        for number, method in enumerate(ABLATIONS, 8)
    ),
)


def best_on_average_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Compute `minus` for the method of each family with the highest mean over all columns.

    Columns in which a method has no score are ignored. Methods in both families count only for the
    first family. `best_minus` cannot be used, because it chooses a best method for each column.
    """
    rows = drop_runs_with_mask(chosen)
    firsts, seconds = split_families(rows["method"].unique(), first, second)
    rows = drop_columns_with_diverged_runs(rows[rows["method"].isin(firsts + seconds)])
    means = pivot_methods(rows).dropna().mean()
    averages = [means.reindex(family).dropna() for family in (firsts, seconds)]
    if any(average.empty for average in averages):
        return empty_values()
    return minus(rows, *(re.escape(str(average.idxmax())) for average in averages))


def distance_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Compute ``abs(minus_printed)``, because opposite signs would cancel in the mean."""
    return minus_printed(chosen, printed, pairs, exhibit, split).abs()


def correlate_changes_with_scores(
    changes: pd.DataFrame, chosen: pd.DataFrame, method: str, parts: Mapping[str, Sequence[str]]
) -> pd.Series:
    """Compute the negative rank correlation over methods between changes and scores.

    The change is the mean change of a method's parameters (``parts``) in runs of ``method``, which
    trains them all. The score is the mean over tasks. A value is negative if methods with larger
    changes have higher scores. No shared statistic reads both changes and scores.
    """
    means, scores = average_changes(changes, method), method_scores(chosen)
    methods = [m for m, names in parts.items() if m in scores and set(names) <= set(means)]
    if len(methods) < FEWEST_PAIRS:
        return empty_values()
    changed = pd.DataFrame({m: means[list(parts[m])].mean(axis=1) for m in methods})
    averages = scores[methods].dropna().groupby(level=["model", "seed"]).mean()
    values = {
        (model, task, seed): -rank_correlation(row, averages.loc[(model, seed)])
        for (model, task), row in changed.iterrows()
        for seed in averages.index.get_level_values("seed").unique()
        if (model, seed) in averages.index
    }
    return pd.Series(values, dtype=float).rename_axis(["model", "task", "seed"])


PAPER = Paper(
    name="bitfit_plus",
    citation="BitFit+ (Weng et al.)",
    exhibits=EXHIBITS,
    claims=read_claims(
        __package__, best_on_average_minus, distance_to_printed, correlate_changes_with_scores
    ),
)
