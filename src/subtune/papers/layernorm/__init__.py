"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import masked_runs
from subtune.analysis.parameters import component_ranking
from subtune.analysis.statistics import CELL, method_scores, minus, no_values, rank_correlations
from subtune.exhibits.figures import draw_scores_by_fraction
from subtune.exhibits.finding_tables import component_table, kruskal_wallis_table
from subtune.exhibits.heat_maps import (
    draw_component_changes,
    draw_global_information,
    draw_information,
)
from subtune.papers.paper import Figure, Needs, Paper, Table, read_claims
from subtune.papers.shared import SEVERAL_SEEDS, dev_scores, metrics_of_tasks, test_scores

EXHIBITS = (
    Figure(
        "figure1",
        "Change of each component in full fine-tuning",
        "Mean absolute change (LayerNorm paper, Eq. 1) of every component in every layer after "
        "full fine-tuning, one panel per task, on one logarithmic scale. Layers count from 0.",
        make=draw_component_changes,
        needs=Needs(methods=("full",)),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "Components by Fisher information before fine-tuning: averaged within each component, "
        "divided by the task's sum, summed over tasks. The paper's rank is shown beside it.",
        make=lambda results: component_table(results, "table1"),
        needs=Needs(tables=("component_shares",)),
    ),
    dev_scores("table2", "Dev scores", ["table2"]),
    test_scores("table3", ["table3"]),
    Table(
        "kruskal_wallis",
        "BitFit against LayerNorm",
        "P-values of the Kruskal–Wallis test between the scores of BitFit and of LayerNorm, "
        "computed from these runs and from the paper's tables, and as the paper reports them.",
        make=lambda results: kruskal_wallis_table(results, ["bitfit", "layernorm"]),
    ),
    Figure(
        "figure2",
        "Dev score by trained fraction, masks of the task itself",
        "Dev score against the trained fraction of LayerNorm, with each task's own mask. At 100 "
        "%, all of LayerNorm trains.",
        make=lambda results: draw_scores_by_fraction(results, ["individual"]),
        needs=Needs(fractions=True),
    ),
    Figure(
        "figure3",
        "Fisher information of LayerNorm, by layer and task",
        "Share of the task's LayerNorm Fisher information before fine-tuning, by layer, weights "
        "beside biases. Below are the paper's numbers for BERT-large-cased. The paper does not "
        "state their scale; they are neither shares nor relative to the largest value. The six "
        "hatched cells cannot be read. Statistics of the paper's numbers omit layers with hatched "
        "cells.",
        make=draw_information,
        needs=Needs(tables=("layernorm_information",)),
    ),
    Figure(
        "figure4",
        "Global Fisher information of LayerNorm",
        "Each layer's share of a task's LayerNorm Fisher information, separately for weights and "
        "biases, summed over tasks: every column sums to the number of tasks. The paper's numbers, "
        "beside ours, follow from its Figure 3 in the same way. (Global masks use weights "
        "and biases together, as section 3.4 says.) Colours are multiples of an even share, on "
        "one scale.",
        make=draw_global_information,
        needs=Needs(tables=("global_layernorm_information",)),
    ),
    Figure(
        "figure5",
        "Dev score by trained fraction, three kinds of mask",
        "Dev score against the trained fraction of LayerNorm, for masks from the task itself "
        "(individual), from all tasks (global) and from all other tasks (cross-validated). In "
        "addition to the paper's three curves, lines show all of LayerNorm and full fine-tuning. "
        f"Bands are {SEVERAL_SEEDS}.",
        make=lambda results: draw_scores_by_fraction(
            results, ["individual", "global", "cv"], references=["layernorm", "full"]
        ),
        needs=Needs(fractions=True),
    ),
    metrics_of_tasks("table4"),
)


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of dev scores and of test scores.

    `minus` does not fit: it reads a single table.
    """
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def mask_minus(
    chosen: pd.DataFrame, first: str, second: str, fraction: float | None = None
) -> pd.Series:
    """Return the score of one kind of mask minus that of another.

    `minus` does not fit: it leaves out masks.

    Args:
        first: a kind of mask (``individual``, ``global`` or ``cv``), or a whole method.
        second: like ``first``.
        fraction: the masks with the nearest fraction are compared; default: the mean over all
            fractions.
    """
    masks = masked_runs(chosen).groupby([*CELL, "fraction", "scope"])["value"].mean().unstack()
    if masks.empty:
        return no_values()
    whole = method_scores(chosen).drop(columns=masks.columns, errors="ignore")
    wide = masks.join(whole).reindex(columns=[first, second])
    if fraction is not None:
        fractions = wide.index.get_level_values("fraction")
        nearest = min(fractions, key=lambda value: abs(value - fraction))
        wide = wide[fractions == nearest]
    return (wide[first] - wide[second]).groupby(level=CELL).mean(skipna=False).dropna()


def to_largest_other(
    table: pd.DataFrame, component: str, without: Collection[str], value: str = "share"
) -> pd.Series:
    """Return how far a component is above all others: a log ratio for each task.

    It is the component's mean over layers, divided by the largest such mean of another component.
    The series is empty for a table of ranks. `changes_to_largest_other` does not fit: these tables
    have components instead of parameters, and no methods.

    Args:
        without: components that are not compared.
        value: the column: ``share`` of information, or ``change``.
    """
    if value not in table:
        return no_values()
    wide = table.groupby(["task", "component"])[value].mean().unstack()
    if component not in wide:
        return no_values()
    others = wide.drop(columns=[component, *without], errors="ignore")
    return np.log(wide[component] / others.max(axis=1)).dropna()


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Return whether a component has the most information over all tasks (Table 1).

    A statistic per task does not fit: Table 1 prints only an order over all tasks.

    Args:
        shares: from `component_shares`, or a ``rank`` per ``component``.
        without: components that are not compared.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Return, per task, the rank correlation of layer numbers and values of LayerNorms.

    A difference does not fit: the claim is about a trend over layers.

    Args:
        layers: ``task``, ``layer``, the value and, if there are several components, ``component``.
        value: the column: information or change.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    return rank_correlations(rows.groupby(["task", "layer"])[value].sum(), "layer", ["task"])


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Return the biases' share of a task's LayerNorm information minus the weights' share.

    Layers without one of the two are left out. `minus` does not fit: the table has no methods.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # Norms of some models have no biases.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, globals()),
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
