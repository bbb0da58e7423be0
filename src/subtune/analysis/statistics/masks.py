"""Scores of masks."""

import pandas as pd

from subtune.analysis.scores import masked
from subtune.analysis.statistics.cells import CELL, NOTHING, method_scores


def _by_scope(chosen: pd.DataFrame) -> pd.DataFrame:
    """Scores of masks: a row per model, column, seed and fraction, a column per scope."""
    return masked(chosen).groupby([*CELL, "fraction", "scope"])["value"].mean().unstack()


def scope_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Score of one kind of mask minus that of another, the mean over fractions."""
    masks = _by_scope(chosen)
    if not {first, second} <= set(masks.columns):
        return NOTHING
    fractions = (masks[first] - masks[second]).groupby(level=CELL)
    return fractions.mean(skipna=False).dropna()


def fraction_minus_whole(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> pd.Series:
    """Score of the mask whose fraction is nearest to this one, minus that of the whole method."""
    masks, whole = _by_scope(chosen), method_scores(chosen)
    if scope not in masks or method not in whole:
        return NOTHING
    fractions = masks.index.get_level_values("fraction").unique()
    nearest = min(fractions, key=lambda value: abs(value - fraction))
    return (masks[scope].xs(nearest, level="fraction") - whole[method]).dropna()


def whole_minus_fraction(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> pd.Series:
    """`fraction_minus_whole` with its sign turned."""
    return -fraction_minus_whole(chosen, method, scope, fraction)
