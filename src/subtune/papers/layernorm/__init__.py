"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import select_masked_runs
from subtune.analysis.parameters import component_ranking
from subtune.analysis.statistics import CELL, empty_values, method_scores, minus, rank_correlations
from subtune.exhibits.figures import draw_scores_by_fraction
from subtune.exhibits.finding_tables import component_table, kruskal_wallis_table
from subtune.exhibits.heat_maps import (
    draw_component_changes,
    draw_global_information,
    draw_information,
)
from subtune.papers.paper import Figure, Needs, Paper, Table, read_claims
from subtune.papers.shared import SEVERAL_SEEDS, dev_score_table, metric_table, test_score_table

EXHIBITS = (
    Figure(
        "figure1",
        "Changes of each component in full fine-tuning",
        "The heat maps show the mean absolute change (LayerNorm paper, Eq. 1) of each component in "
        "each layer after full fine-tuning. There is one panel for each task; all panels share a "
        "logarithmic scale. Layers are numbered from 0, as in the paper's Figures 3 and 4.",
        make=draw_component_changes,
        needs=Needs(methods=("full",)),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "The table ranks components by their Fisher information before fine-tuning. The "
        "information is averaged within each component, divided by the sum over the components of "
        "a task, and summed over tasks. The last column shows the rank in the paper.",
        make=lambda results: component_table(results, "table1"),
        needs=Needs(tables=("component_shares",)),
    ),
    dev_score_table("table2", "Dev scores", ["table2"]),
    test_score_table("table3", ["table3"]),
    Table(
        "kruskal_wallis",
        "BitFit compared with LayerNorm",
        "The Kruskal–Wallis test compares the scores of BitFit and LayerNorm. The p-values are "
        "computed from these runs and from the paper's tables. The last column shows the p-values "
        "that the paper prints.",
        make=lambda results: kruskal_wallis_table(results, ["bitfit", "layernorm"]),
    ),
    Figure(
        "figure2",
        "Dev score by trained fraction, individual masks",
        "The plots show the dev score by trained fraction of the LayerNorm parameters, for masks "
        "from the Fisher information of the task itself. At 100 %, all LayerNorm parameters are "
        "trained.",
        make=lambda results: draw_scores_by_fraction(results, ["individual"]),
        needs=Needs(fractions=True),
    ),
    Figure(
        "figure3",
        "Fisher information of LayerNorm, by layer and task",
        "The upper panels show each layer's share of the LayerNorm Fisher information of a "
        "task before fine-tuning, for weights and biases. The lower panels show the paper's "
        "numbers for BERT-large-cased. Their scale is not stated. Hatched cells are illegible in "
        "the paper.",
        make=draw_information,
        needs=Needs(tables=("layernorm_information",)),
    ),
    Figure(
        "figure4",
        "Global Fisher information of LayerNorm",
        "For weights and for biases, the heat maps show each layer's share of the LayerNorm Fisher "
        "information of a task, summed over tasks. Every column sums to the number of tasks. The "
        "paper's numbers are computed from its Figure 3 in the same way. For global "
        "masks, in contrast, weights and biases are ranked together, as in section 3.4. Both heat "
        "maps use one colour scale, in multiples of an equal share per layer.",
        make=draw_global_information,
        needs=Needs(tables=("global_layernorm_information",)),
    ),
    Figure(
        "figure5",
        "Dev score by trained fraction, three kinds of mask",
        "The plots show the dev score by trained fraction of the LayerNorm parameters, for masks "
        "from the Fisher information of the task itself (individual), of all tasks (global), and "
        "of all other tasks (cross-validated). In addition to the paper's three curves, horizontal "
        "lines show two references: training all LayerNorm parameters, and full fine-tuning. "
        f"Bands are {SEVERAL_SEEDS}.",
        make=lambda results: draw_scores_by_fraction(
            results, ["individual", "global", "cv"], references=["layernorm", "full"]
        ),
        needs=Needs(fractions=True),
    ),
    metric_table("table4"),
)


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Compute `minus` for dev scores and for test scores.

    `minus` itself cannot be used, because it reads a single table.
    """
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def mask_minus(
    chosen: pd.DataFrame, first: str, second: str, fraction: float | None = None
) -> pd.Series:
    """Compute the score of the first kind of mask minus that of the second.

    `minus` cannot be used, because it leaves out masked runs.

    Args:
        first: a scope of masks (``individual``, ``global`` or ``cv``), or a method without a mask.
        second: a scope or a method, like ``first``.
        fraction: masks with the fraction nearest to this number are compared. If None, the mean
            scores over all fractions are compared.
    """
    groups = select_masked_runs(chosen).groupby([*CELL, "fraction", "scope"])
    masks = groups["value"].mean().unstack()
    if masks.empty:
        return empty_values()
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
    """Compute ``log(component / largest_other)`` for each task.

    ``component`` is the component's mean of ``value``, and ``largest_other`` is the largest mean of
    another component. The result is empty if ``table`` only contains ranks.
    `changes_to_largest_other` cannot be used, because ``table`` contains components instead of
    parameters, and no methods.

    Args:
        without: components that are left out of the comparison.
        value: the column to compare: ``share`` (of Fisher information) or ``change``.
    """
    if value not in table:
        return empty_values()
    wide = table.groupby(["task", "component"])[value].mean().unstack()
    if component not in wide:
        return empty_values()
    others = wide.drop(columns=[component, *without], errors="ignore")
    return np.log(wide[component] / others.max(axis=1)).dropna()


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Check whether a component has the most Fisher information in the sum over tasks (Table 1).

    A statistic for each task cannot be used, because Table 1 only prints the order over all tasks.

    Args:
        shares: the table ``component_shares``, or a table with the columns ``component`` and
            ``rank``.
        without: components that are left out of the comparison.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Compute the rank correlation between layer numbers and values of layers, for each task.

    A difference cannot be used, because the claim is about a trend over layers.

    Args:
        layers: a table with the columns ``task``, ``layer``, ``value`` and, if ``component`` is
            not None, ``component``.
        value: the name of the column with Fisher information or changes.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    return rank_correlations(rows.groupby(["task", "layer"])[value].sum(), "layer", ["task"])


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Compute the biases' share of LayerNorm's Fisher information minus the weights' share.

    Layers without a weight or a bias are left out. `minus` cannot be used, because ``layers``
    contains no methods.
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
    claims=read_claims(__package__, globals()),
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
