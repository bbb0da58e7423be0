"""What claims are asked of, and how: numbers in which 0 means no difference.

Each statistic reads one table of numbers, ours or a paper's, and returns a number per unit: per
column of the tables, or per task. They are differences of scores or of shares, rank correlations,
and logarithms of ratios. Where the table lacks what is asked for, there are none.
"""

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from subtune.analysis.scores import by_method, masked, whole_methods, without_diverged


def minus(chosen: pd.DataFrame, first: str | Iterable[str], second: str | Iterable[str]):
    """Score of the first method minus that of the second, per model and column.

    Of several methods of each, the means count.
    """
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]
    methods = [method for group in groups for method in group]
    whole = whole_methods(chosen)
    scores = without_diverged(whole[whole["method"].isin(methods)])
    if not all(set(group) & set(scores["method"]) for group in groups):
        return []
    wide = by_method(scores)
    means = [wide.reindex(columns=group).mean(axis=1) for group in groups]
    return (means[0] - means[1]).dropna().tolist()


def family_minus(chosen: pd.DataFrame, first: str, second: str) -> list[float]:
    """As `minus`, of all methods whose names match these patterns from the start."""
    methods = chosen["method"].unique()
    return minus(chosen, *([m for m in methods if re.match(p, m)] for p in (first, second)))


def parameters_of_families(chosen: pd.DataFrame, first: str, second: str) -> list[float]:
    """Log of the most parameters of one family to the fewest of the other, per model and task.

    The claim that one family trains fewer holds where even its largest method does.
    """
    if "trainable" not in chosen:
        return []
    counts = chosen.groupby(["model", "task", "method"])["trainable"].max().unstack()
    families = [counts.filter(regex=f"^{pattern}") for pattern in (first, second)]
    return np.log(families[0].max(axis=1) / families[1].min(axis=1)).dropna().tolist()


def _by_scope(chosen: pd.DataFrame) -> pd.DataFrame:
    """Scores of masks, of means over seeds: a row per column and fraction, a column per scope."""
    return masked(chosen).groupby(["column", "fraction", "scope"])["value"].mean().unstack()


def scope_minus(chosen: pd.DataFrame, first: str, second: str) -> list[float]:
    """Score of one kind of mask minus that of another: the mean over fractions, per column."""
    masks = _by_scope(chosen)
    if not {first, second} <= set(masks.columns):
        return []
    differences = (masks[first] - masks[second]).groupby(level="column")
    return differences.mean(skipna=False).dropna().tolist()


def fraction_minus_whole(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> list[float]:
    """Score of the mask whose fraction is nearest to this one, minus that of the whole method."""
    masks = _by_scope(chosen)
    whole = whole_methods(chosen)
    whole = whole[whole["method"] == method].groupby("column")["value"].mean()
    if scope not in masks or whole.empty:
        return []
    fractions = masks.index.get_level_values("fraction").unique()
    nearest = min(fractions, key=lambda value: abs(value - fraction))
    return (masks[scope].xs(nearest, level="fraction") - whole).dropna().tolist()


def _to_largest_other(table: pd.DataFrame, name: str) -> list[float]:
    """Log of a column to the largest of the others, per row."""
    return np.log(table[name] / table.drop(columns=name).max(axis=1)).tolist()


def change_to_largest_other(changes: pd.DataFrame, component: str) -> list[float]:
    """Log of a component's mean |change| over layers to the largest other one's, per task."""
    means = changes.groupby(["task", "component"])["change"].mean().unstack()
    return _to_largest_other(means, component)


def share_to_largest_other(shares: pd.DataFrame, component: str) -> list[float]:
    """Log of a component's share of a task's information to the largest other one's."""
    wide = shares.pivot(index="task", columns="component", values="share")
    return _to_largest_other(wide, component)


def bias_minus_weight(layers: pd.DataFrame) -> list[float]:
    """The biases' share of a task's LayerNorm information, minus the weights'."""
    shares = layers.groupby(["task", "part"])["share"].sum().unstack()
    return (shares["bias"] - shares["weight"]).tolist()


def rank_of_layers(layers: pd.DataFrame) -> list[float]:
    """Rank correlation of a layer's number and its LayerNorm information, per task."""
    from scipy import stats

    totals = layers.groupby(["task", "layer"])["share"].sum().unstack()
    return [
        float(stats.spearmanr(totals.columns, row, nan_policy="omit").statistic)
        for row in totals.to_numpy()
    ]


def changes_to_largest_other_bias(
    changes: pd.DataFrame, method: str, biases: Iterable[str]
) -> list[float]:
    """Log of the smallest change of some biases to the largest of another, per model and task."""
    rows = changes[(changes["method"] == method) & changes["parameter"].str.startswith("b_")]
    means = rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()
    named = list(biases)
    if not set(named) <= set(means.columns):
        return []
    return (
        np.log(means[named].min(axis=1) / means.drop(columns=named).max(axis=1)).dropna().tolist()
    )


def gap_minus(scores: pd.DataFrame, first: str, second: str) -> list[float]:
    """Generalisation gap of one method minus another's, per model and column."""
    wide = scores.groupby(["model", "column", "method"])["gap"].mean().unstack()
    if not {first, second} <= set(wide.columns):
        return []
    return (wide[first] - wide[second]).dropna().tolist()
