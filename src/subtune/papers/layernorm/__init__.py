"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import pivot_methods, select_masked_runs
from subtune.analysis.parameters import component_ranking
from subtune.analysis.statistics import (
    PAIR_KEYS,
    empty_values,
    kruskal_wallis,
    method_scores,
    rank_correlations,
    wilcoxon,
)
from subtune.exhibits.figures import SEVERAL_SEEDS
from subtune.exhibits.finding_tables import METRICS_TABLE
from subtune.exhibits.output import EMPTY, ExperimentResults, Figure, Needs, Table
from subtune.exhibits.score_tables import (
    dev_score_table,
    select_printed_scores,
    test_score_table,
)
from subtune.papers.layernorm.figures import (
    draw_component_changes,
    draw_global_information,
    draw_information,
    draw_scores_by_fraction,
)
from subtune.papers.paper import Paper, read_claims

# The methods that the paper compares with the Kruskal–Wallis test.
TESTED = ["bitfit", "layernorm"]


def kruskal_wallis_table(results: ExperimentResults) -> pd.DataFrame:
    """Compare `TESTED` with the Kruskal–Wallis test, on reproduced and on printed scores.

    The test is computed on dev scores, on test scores, and on all of these scores together. The
    column ``p_paired`` is the p-value of Wilcoxon's test, which pairs the scores by task. The
    paper's table has the columns ``scores`` (names of the tables with the tested scores) and
    ``p_value``.
    """
    printed, printed_scores = results.printed("kruskal_wallis"), results.printed("scores")
    tables = [results.tables[name] for name in ("chosen", "test_scores") if name in results.tables]
    reproduced = [pivot_methods(table).reindex(columns=TESTED).dropna() for table in tables]
    reproduced += [pd.concat(reproduced)] if len(reproduced) > 1 else []
    tested: list[tuple[str, pd.DataFrame, float | None]] = [
        (f"this run's {name.replace('table', 'table ')}", scores, None)
        for name, scores in zip(printed["scores"], reproduced, strict=False)
        if len(scores)
    ]
    for name, p_value in zip(printed["scores"], printed["p_value"], strict=True):
        rows = select_printed_scores(printed_scores, re.findall(r"table\d+", name))
        scores = rows.pivot(index=["exhibit", "task"], columns="method", values="value")
        tested.append((f"paper's {name}", scores, p_value))
    tests = []
    for name, scores, reported in tested:
        first, second = (scores[method] for method in TESTED)
        p_values = kruskal_wallis(first, second), wilcoxon(first - second)
        tests.append((name, len(first), len(second), *p_values, reported))
    counts = [f"n_{method}" for method in TESTED]
    return pd.DataFrame(tests, columns=["scores", *counts, "p_value", "p_paired", "reported"])


def component_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the ranks of components by Fisher information, reproduced and printed."""
    total = component_ranking(results["component_shares"])
    ranks = results.printed("table1").set_index("component")["rank"]
    columns = {
        "rank": range(1, len(total) + 1),
        "component": total.index,
        "information": [f"{value:.4f}" for value in total],
        "paper's rank": [ranks.get(component, EMPTY) for component in total.index],
    }
    return pd.DataFrame(columns)


EXHIBITS = (
    Figure(
        "figure1",
        "Change in each component during full fine-tuning",
        "The heat maps show the mean absolute change (LayerNorm paper, Eq. 1) of each component "
        "in each layer after full fine-tuning. There is one panel per task; all panels share a "
        "logarithmic colour scale. Layers are numbered from 0, as in the paper's Figures 3 and 4.",
        make=draw_component_changes,
        needs=Needs(methods=("full",)),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "The table ranks components by their Fisher information before fine-tuning. For each "
        "task, the information is averaged within each component and divided by the sum over "
        "components. The results are summed over tasks. The last column shows the rank in the "
        "paper.",
        make=component_table,
        needs=Needs(tables=("component_shares",)),
    ),
    dev_score_table("table2", "Dev scores", ["table2"]),
    test_score_table("table3", ["table3"]),
    Table(
        "kruskal_wallis",
        "BitFit compared with LayerNorm",
        "The Kruskal–Wallis test compares the scores of BitFit and LayerNorm, in these runs and "
        "in the paper's tables. The last column shows the p-values that the paper prints. The "
        "test does not pair the scores by task, so differences between tasks can hide a "
        "difference between the methods. The column 'p_paired' is from Wilcoxon's signed-rank "
        "test, which pairs scores by task.",
        make=kruskal_wallis_table,
    ),
    Figure(
        "figure2",
        "Dev score against the trained fraction, individual masks",
        "The plots show the dev score against the fraction of LayerNorm parameters that are "
        "trained. The masks are based on the Fisher information of the task itself. At 100 %, all "
        "LayerNorm parameters are trained.",
        make=lambda results: draw_scores_by_fraction(results, ["individual"]),
        needs=Needs(fractions=True),
    ),
    Figure(
        "figure3",
        "Fisher information of LayerNorm, by layer and task",
        "The upper panels show how the Fisher information of LayerNorm on each task, before "
        "fine-tuning, is distributed over the layers, for weights and for biases. The lower "
        "panels show the paper's numbers for BERT-large-cased, whose scale is not stated. Hatched "
        "cells are illegible in the paper.",
        make=draw_information,
        needs=Needs(tables=("layernorm_information",)),
    ),
    Figure(
        "figure4",
        "Global Fisher information of LayerNorm",
        "The heat maps show each layer's share of LayerNorm's Fisher information, for weights and "
        "for biases. Shares are computed for each task, then summed over tasks. Every column sums "
        "to the number of tasks. The paper's numbers are from its Figure 4, which has the same "
        "sums. For global masks, in contrast, weights and biases are ranked together, as in "
        "section 3.4. In both heat maps, the same colour stands for the same multiple of the "
        "map's mean value.",
        make=draw_global_information,
        needs=Needs(tables=("global_layernorm_information",)),
    ),
    Figure(
        "figure5",
        "Dev score against the trained fraction, three kinds of mask",
        "The plots show the dev score against the fraction of LayerNorm parameters that are "
        "trained. The masks are based on the Fisher information of the task itself (individual), "
        "of all tasks (global), or of all other tasks (cross-validated). In addition to the "
        "paper's three curves, horizontal lines show two references: training all LayerNorm "
        f"parameters, and full fine-tuning. Bands show {SEVERAL_SEEDS}.",
        make=lambda results: draw_scores_by_fraction(
            results, ["individual", "global", "cv"], references=["layernorm", "full"]
        ),
        needs=Needs(fractions=True),
    ),
    replace(METRICS_TABLE, name="table4"),
)


def mask_minus(
    chosen: pd.DataFrame, first: str, second: str, fraction: float | None = None
) -> pd.Series:
    """Compute ``first - second`` of the scores of two mask scopes or unmasked methods.

    If ``fraction`` is given, only the masks whose fraction is nearest to it are used. Otherwise,
    scores are averaged over all fractions. `minus` cannot be used, because it leaves out masked
    runs.
    """
    groups = select_masked_runs(chosen).groupby([*PAIR_KEYS, "fraction", "scope"])
    masks = groups["value"].mean().unstack()
    if masks.empty:
        return empty_values()
    whole = method_scores(chosen).drop(columns=masks.columns, errors="ignore")
    wide = masks.join(whole).reindex(columns=[first, second])
    if fraction is not None:
        fractions = wide.index.get_level_values("fraction")
        nearest = min(fractions, key=lambda value: abs(value - fraction))
        wide = wide[fractions == nearest]
    return (wide[first] - wide[second]).groupby(level=PAIR_KEYS).mean(skipna=False).dropna()


def change_to_largest_other(changes: pd.DataFrame, component: str) -> pd.Series:
    """Compare the mean change of a component with those of all other components.

    For each task, compute the log of the component's mean change divided by the largest mean change
    of any other component. `changes_to_largest_other` cannot be used, because ``changes`` has
    components and no methods.
    """
    wide = changes.groupby(["task", "component"])["change"].mean().unstack()
    if component not in wide:
        return empty_values()
    return np.log(wide[component] / wide.drop(columns=component).max(axis=1)).dropna()


def rank_minus(shares: pd.DataFrame, ranks: Mapping[str, int]) -> pd.Series:
    """Compute each component's rank by Fisher information minus its rank in ``ranks`` (Table 1).

    ``shares`` is ``component_shares``, or has the columns ``component`` and ``rank``. No shared
    statistic can be used, because Table 1 reports only the overall ranking for all tasks together.
    """
    if "rank" in shares:
        reproduced = shares.set_index("component")["rank"]
    else:
        order = component_ranking(shares).index
        reproduced = pd.Series(range(1, len(order) + 1), order)
    return (reproduced - pd.Series(ranks)).dropna().rename_axis("component")


def rank_of_layers(layers: pd.DataFrame, value: str) -> pd.Series:
    """Compute the rank correlation between layer numbers and the column ``value``, for each task.

    A difference cannot be used, because the claim is about a trend over layers.
    """
    return rank_correlations(layers.groupby(["task", "layer"])[value].sum(), "layer", ["task"])


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Compute ``bias - weight`` of the shares of LayerNorm's Fisher information, for each task.

    Layers without a weight or a bias are left out. `minus` cannot be used, because ``layers`` has
    no methods.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # In some models, LayerNorm has no bias.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=read_claims(
        __package__,
        mask_minus,
        change_to_largest_other,
        rank_minus,
        rank_of_layers,
        bias_minus_weight,
    ),
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
