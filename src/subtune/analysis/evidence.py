"""What claims are asked of, and how: numbers in which 0 means no difference.

Each question goes to an `Evidence`, of our numbers or of the printed ones, and returns a number per
unit: per column of the tables, or per task. They are differences of scores or of shares, rank
correlations, and logarithms of ratios. Where the evidence lacks what is asked for, there are none.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from subtune import reported
from subtune.analysis.scores import by_method, methods_only
from subtune.reported import AVERAGE

LAYERNORM = "output.LayerNorm"
# The paper's smallest share of LayerNorm that still does as well (LayerNorm paper, section 6).
SMALL_FRACTION = 0.1
BIASES_THAT_CHANGE = ("b_q", "b_m2")


@dataclass(frozen=True)
class Evidence:
    """Numbers that claims are asked of; a table that is not there is empty.

    ``scores``: the chosen runs: ``model``, ``column``, ``method``, ``fraction``, ``scope``,
    ``value``, ``trainable``. ``changes``: ``task``, ``component``, ``layer``, ``change``.
    ``components``: ``task``, ``component``, ``share``. ``layers``: ``task``, ``layer``, ``part``,
    ``share``. ``parameters``: ``model``, ``task``, ``method``, ``parameter``, ``layer``,
    ``change``. ``gaps``: ``model``, ``method``, ``column``, ``gap``.
    """

    scores: pd.DataFrame
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)
    components: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    parameters: pd.DataFrame = field(default_factory=pd.DataFrame)
    gaps: pd.DataFrame = field(default_factory=pd.DataFrame)


Units = Callable[[Evidence], Sequence[float]]


def minus(first: str | Iterable[str], second: str | Iterable[str]) -> Units:
    """Score of the first method minus that of the second; of several of each, the means."""
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]

    def units(evidence: Evidence) -> Sequence[float]:
        wanted = [method for group in groups for method in group]
        own = evidence.scores[evidence.scores["method"].isin(wanted)]
        if not all(set(group) & set(own["method"]) for group in groups):
            return []
        wide = by_method(own)
        known = [wide.reindex(columns=group).mean(axis=1) for group in groups]
        differences = (known[0] - known[1]).dropna()
        # A paper may print the average alone.
        single = differences.drop(index=AVERAGE, level="column", errors="ignore")
        return (single if len(single) else differences).tolist()

    return units


def families(first: str, second: str) -> Units:
    """As `minus`, of all methods whose names match these patterns from the start."""

    def units(evidence: Evidence) -> Sequence[float]:
        methods = evidence.scores["method"].unique()
        own = [[m for m in methods if re.match(pattern, m)] for pattern in (first, second)]
        return minus(*own)(evidence)

    return units


def parameters_of_families(first: str, second: str) -> Units:
    """Log of the most parameters of one family to the fewest of the other, per model and task."""

    def units(evidence: Evidence) -> Sequence[float]:
        if "trainable" not in evidence.scores:
            return []
        counts = evidence.scores.groupby(["model", "task", "method"])["trainable"].max().unstack()
        own = [counts.filter(regex=f"^{pattern}") for pattern in (first, second)]
        return np.log(own[0].max(axis=1) / own[1].min(axis=1)).dropna().tolist()

    return units


def _masks(evidence: Evidence) -> pd.DataFrame:
    """Scores of masks, of means over seeds: a row per column and fraction, a column per scope."""
    own = evidence.scores[evidence.scores["scope"] != ""]
    return own.groupby(["column", "fraction", "scope"])["value"].mean().unstack()


def scope_minus(first: str, second: str) -> Units:
    """Score of one kind of mask minus that of another: the mean over fractions, per column."""

    def units(evidence: Evidence) -> Sequence[float]:
        masks = _masks(evidence)
        if not {first, second} <= set(masks.columns):
            return []
        return (masks[first] - masks[second]).groupby(level="column").mean().dropna().tolist()

    return units


def small_fraction_minus_whole(evidence: Evidence) -> Sequence[float]:
    """Score of the individual mask nearest to `SMALL_FRACTION`, minus that of all of LayerNorm."""
    masks = _masks(evidence)
    whole = methods_only(evidence.scores)
    whole = whole[whole["method"] == "layernorm"].groupby("column")["value"].mean()
    if "individual" not in masks or whole.empty:
        return []
    fractions = masks.index.get_level_values("fraction").unique()
    nearest = min(fractions, key=lambda fraction: abs(fraction - SMALL_FRACTION))
    own = masks["individual"].xs(nearest, level="fraction")
    return (own - whole).dropna().tolist()


def _to_largest_other(table: pd.DataFrame) -> Sequence[float]:
    """Log of the output LayerNorm's value to the largest other component's, per task."""
    others = table.drop(columns=LAYERNORM).max(axis=1)
    return np.log(table[LAYERNORM] / others).tolist()


def layernorm_change(evidence: Evidence) -> Sequence[float]:
    """As `_to_largest_other`, of mean |change| over the layers."""
    if evidence.changes.empty:
        return []
    return _to_largest_other(
        evidence.changes.groupby(["task", "component"])["change"].mean().unstack()
    )


def layernorm_information(evidence: Evidence) -> Sequence[float]:
    """As `_to_largest_other`, of shares of the task's information."""
    if evidence.components.empty:
        return []
    return _to_largest_other(
        evidence.components.pivot(index="task", columns="component", values="share")
    )


def bias_minus_weight(evidence: Evidence) -> Sequence[float]:
    """The bias's share of a task's LayerNorm information, minus the weight's."""
    if evidence.layers.empty:
        return []
    shares = evidence.layers.groupby(["task", "part"])["share"].sum().unstack()
    return (shares["bias"] - shares["weight"]).tolist()


def rank_of_layers(evidence: Evidence) -> Sequence[float]:
    """Rank correlation of a layer's number and its LayerNorm information, per task."""
    if evidence.layers.empty:
        return []
    totals = evidence.layers.groupby(["task", "layer"])["share"].sum().unstack()
    return [float(stats.spearmanr(totals.columns, row).statistic) for row in totals.to_numpy()]


def change_of_biases(evidence: Evidence) -> Sequence[float]:
    """Log of the smaller change of `BIASES_THAT_CHANGE` to the largest of another bias."""
    own = evidence.parameters
    if own.empty:
        return []
    own = own[(own["method"] == "bitfit") & own["parameter"].str.startswith("b_")]
    means = own.groupby(["model", "task", "parameter"])["change"].mean().unstack()
    if not set(BIASES_THAT_CHANGE) <= set(means.columns):
        return []
    named = means[list(BIASES_THAT_CHANGE)].min(axis=1)
    others = means.drop(columns=list(BIASES_THAT_CHANGE)).max(axis=1)
    return np.log(named / others).dropna().tolist()


def gap(evidence: Evidence) -> Sequence[float]:
    """Generalisation gap of full fine-tuning minus BitFit's."""
    if evidence.gaps.empty:
        return []
    wide = evidence.gaps.groupby(["model", "column", "method"])["gap"].mean().unstack()
    if not {"full", "bitfit"} <= set(wide.columns):
        return []
    return (wide["full"] - wide["bitfit"]).dropna().tolist()


def printed_evidence(paper: str) -> Evidence:
    """The numbers that a paper prints, as evidence for its claims."""
    scores = reported.scores(paper)
    scores = scores[scores["split"] == "validation"].rename(columns={"task": "column"})
    scores = scores.drop_duplicates(["model", "method", "column"]).assign(scope="", fraction=1.0)
    layers = pd.DataFrame()
    if paper == "layernorm":
        layers = reported.table("layernorm_figure3.csv").rename(columns={"value": "share"})
        layers["share"] /= layers.groupby("task")["share"].transform("sum")
    return Evidence(scores.drop(columns="params"), layers=layers)
