"""What claims are asked of, and how: numbers in which 0 means no difference.

Each statistic reads tables of numbers, ours or a paper's, and returns a series with a number per
cell: its index says of which model, column of the tables or task, and seed, as far as the table
tells them apart. They are differences of scores or of shares, rank correlations, and logarithms of
ratios. Where a table lacks what is asked for, the series is empty.

Methods of a family are named by a pattern, which matches their names from the start.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from subtune.analysis.information import component_ranking
from subtune.analysis.scores import (
    by_method,
    masked,
    trained_beside_classifier,
    whole_methods,
    without_diverged,
)

NOTHING = pd.Series(dtype=float)
CELL = ["model", "column", "seed"]
# Of a rank correlation.
FEWEST_PAIRS = 3


def _by_method(chosen: pd.DataFrame) -> pd.DataFrame:
    """Scores of whole methods: a row per model, column of the tables and seed."""
    return whole_methods(chosen).groupby([*CELL, "method"])["value"].mean().unstack()


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if re.match(pattern, name)]


# Differences of scores.


def minus(
    chosen: pd.DataFrame, first: str | Iterable[str], second: str | Iterable[str]
) -> pd.Series:
    """Score of the first method minus that of the second; of several, their means count."""
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]
    methods = [method for group in groups for method in group]
    whole = whole_methods(chosen)
    wide = _by_method(without_diverged(whole[whole["method"].isin(methods)]))
    means = [wide.reindex(columns=group).mean(axis=1) for group in groups]
    return (means[0] - means[1]).dropna()


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """`minus`, of scores on dev and on test sets."""
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def family_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Mean score of one family minus that of another."""
    names = chosen["method"].unique()
    return minus(chosen, _matching(names, first), _matching(names, second))


def best_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Best score of one family minus the best of another, of means over seeds.

    They are rounded as a paper prints them. Methods of the first are left out of the second.
    """
    groups = _rounded_apart(chosen, first, second, digits)
    return (groups[0].max(axis=1) - groups[1].max(axis=1)).round(digits).dropna()


def worst_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Worst score of one family minus the best of another, as in `best_minus`."""
    groups = _rounded_apart(chosen, first, second, digits)
    return (groups[0].min(axis=1) - groups[1].max(axis=1)).round(digits).dropna()


def best_on_average_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """`minus` of two methods: the one of each family that is best in the mean over the columns.

    Methods of the first are left out of the second, and columns on which one has no score.
    """
    groups = _apart(chosen["method"].unique(), first, second)
    rows = whole_methods(chosen)
    rows = without_diverged(rows[rows["method"].isin(groups[0] + groups[1])])
    means = by_method(rows).dropna().mean() if len(rows) else pd.Series(dtype=float)
    averages = [means.reindex(group).dropna() for group in groups]
    if any(average.empty for average in averages):
        return NOTHING
    return minus(rows, *(average.idxmax() for average in averages))


def _rounded_apart(
    chosen: pd.DataFrame, first: str, second: str, digits: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    wide = by_method(chosen).round(digits)
    firsts, seconds = _apart(wide, first, second)
    return wide[firsts], wide[seconds]


def _apart(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    """The names of two families; what is in the first is not in the second."""
    firsts = _matching(names, first)
    return firsts, [name for name in _matching(names, second) if name not in firsts]


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Score of a method minus one that an exhibit prints, of the same model.

    Args:
        chosen: the runs of the best learning rates.
        printed: a paper's scores, from `subtune.analysis.claims.printed_scores`.
        pairs: method to the one that it is compared with.
        exhibit: where that one's scores are printed.
        split: validation or test.
    """
    wide = _by_method(chosen)
    rows = printed[(printed["exhibit"] == exhibit) & (printed["split"] == split)]
    quoted = rows.groupby(["model", "column", "method"])["value"].mean().unstack()
    parts = {
        method: wide[method] - quoted[other].reindex(wide.index.droplevel("seed")).to_numpy()
        for method, other in pairs.items()
        if method in wide and other in quoted
    }
    return pd.concat(parts, names=["method"]).dropna() if parts else NOTHING


def distance_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """`minus_printed` without its sign, so that what is above and below does not cancel."""
    return minus_printed(chosen, printed, pairs, exhibit, split).abs()


def agreement_of_models(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Rank correlation over columns of `minus`, between each pair of models."""
    wide = minus(chosen, first, second).groupby(level=["model", "column"]).mean().unstack("model")
    pairs = {f"{a}, {b}": wide[[a, b]].dropna() for a, b in combinations(wide, 2)}
    return pd.Series(
        {name: rank_correlation(*both.T.to_numpy()) for name, both in pairs.items()}, dtype=float
    ).rename_axis("pair")


def minus_by_size(
    chosen: pd.DataFrame, train_rows: pd.DataFrame, first: str, second: str
) -> pd.Series:
    """Rank correlation over tasks of the number of training rows and `minus`, per model and seed.

    Args:
        chosen: the runs of the best learning rates.
        train_rows: ``task`` and ``rows``.
        first, second: methods.
    """
    deciding = chosen[chosen["decides"]]
    rows = train_rows.set_index("task")["rows"]
    task_of = deciding.drop_duplicates("column").set_index("column")["task"]
    wide = minus(deciding, first, second).unstack("column")
    sizes = rows.reindex(task_of.reindex(wide.columns)).to_numpy()
    has_rows = ~np.isnan(sizes)
    if has_rows.sum() < FEWEST_PAIRS:
        return NOTHING
    return (
        wide.loc[:, has_rows]
        .dropna()
        .apply(lambda row: rank_correlation(sizes[has_rows], row), axis=1)
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; NaN of fewer than three pairs, and where either does not vary."""
    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(stats.spearmanr(first, second).statistic)


def spread_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Standard deviation over seeds of one method minus that of another."""
    wide = _by_method(chosen)
    if not {first, second} <= set(wide):
        return NOTHING
    spread = wide[[first, second]].dropna().groupby(level=["model", "column"]).std()
    return (spread[first] - spread[second]).dropna()


# Masks.


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
    masks, whole = _by_scope(chosen), _by_method(chosen)
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


# What was chosen, and what it trains.


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Log of a share of the fewest parameters of one family to the most of another, per task.

    The claim that the second trains fewer holds where even its largest method does.
    """
    if "trainable" not in chosen:
        return NOTHING
    rows = whole_methods(chosen)
    rows = rows.assign(count=trained_beside_classifier(rows))
    counts = rows.groupby(["model", "task", "method"])["count"].max().unstack()
    smallest = counts[_matching(counts, first)].min(axis=1)
    largest = counts[_matching(counts, second)].max(axis=1)
    return np.log(share * smallest / largest).dropna()


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Log of a family's best learning rates to this one, per model, task and method."""
    return np.log(_rates(chosen, methods) / learning_rate)


def rate_to_printed(chosen: pd.DataFrame, printed: pd.DataFrame, method: str) -> pd.Series:
    """Log of a method's best learning rates to those that a paper prints of the same model."""
    ours, papers = _rates(chosen, method), _rates(printed, method)
    return NOTHING if ours.empty or papers.empty else np.log(ours / papers).dropna()


def _rates(chosen: pd.DataFrame, methods: str) -> pd.Series:
    if "learning_rate" not in chosen:
        return NOTHING
    rows = whole_methods(chosen).dropna(subset=["learning_rate"])
    rows = rows[np.isfinite(rows["value"])]
    rows = rows[rows["method"].isin(_matching(rows["method"].unique(), methods))]
    return rows.groupby(["model", "task", "method"])["learning_rate"].first()


def epochs_before(chosen: pd.DataFrame, method: str, epochs: int) -> pd.Series:
    """How many epochs before this one a method's best was."""
    if "best_epoch" not in chosen:
        return NOTHING
    rows = whole_methods(chosen[chosen["decides"]])
    rows = rows[(rows["method"] == method) & np.isfinite(rows["value"])]
    return epochs - rows.groupby(CELL)["best_epoch"].mean()


# Train and dev scores.


def gap_minus(scores: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Generalisation gap of one method minus another's."""
    wide = scores.groupby([*CELL, "method"])["gap"].mean().unstack()
    if not {first, second} <= set(wide.columns):
        return NOTHING
    return (wide[first] - wide[second]).dropna()


def gap_under(scores: pd.DataFrame, method: str, limit: float) -> pd.Series:
    """By how much a method's generalisation gap is under a limit."""
    rows = scores[scores["method"] == method]
    return (limit - rows.groupby(CELL)["gap"].mean()).dropna()


def train_minus(scores: pd.DataFrame, method: str, level: float) -> pd.Series:
    """A method's score on its training rows minus a level."""
    rows = scores[scores["method"] == method].dropna(subset=["gap"])
    return (rows.groupby(CELL)["train"].mean() - level).dropna()


# Fisher information and changes.


def _to_largest_other(table: pd.DataFrame, name: str, without: Collection[str]) -> pd.Series:
    """Log of a column to the largest of the others, per row."""
    if name not in table:
        return NOTHING
    others = table.drop(columns=[name, *(other for other in without if other in table)])
    return np.log(table[name] / others.max(axis=1)).dropna()


def change_to_largest_other(changes: pd.DataFrame, component: str) -> pd.Series:
    """Log of a component's mean |change| over layers to the largest other one's, per task."""
    means = changes.groupby(["task", "component"])["change"].mean().unstack()
    return _to_largest_other(means, component, ())


def share_to_largest_other(
    shares: pd.DataFrame, component: str, without: Collection[str]
) -> pd.Series:
    """Log of a component's share of a task's information to the largest other one's.

    ``without``: components that are not compared. A table of ranks has no shares.
    """
    if "share" not in shares:
        return NOTHING
    wide = shares.pivot(index="task", columns="component", values="share")
    return _to_largest_other(wide, component, without)


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Whether a component has most information over all tasks (LayerNorm paper, Table 1).

    Args:
        shares: from `subtune.analysis.information.component_shares`, or a ``rank`` per
            ``component``.
        component: the one.
        without: components that are not compared.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """The biases' share of a task's LayerNorm information, minus the weights'.

    Layers of which one is not known do not count.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share").dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Rank correlation of a layer's number and its LayerNorms' information or change, per task.

    Args:
        layers: ``task``, ``layer`` and the value, and where there are several a ``component``. A
            layer of which a part is not known does not count.
        value: the column.
        component: of which component, where there are several.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    totals = rows.groupby(["task", "layer"])[value].agg(lambda parts: parts.sum(skipna=False))
    return (
        totals.dropna()
        .groupby(level="task")
        .apply(lambda of_task: rank_correlation(of_task.index.get_level_values("layer"), of_task))
    )


def _changes_of(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """A method's changes, means over layers: a row per model and task, a column per parameter."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Log of the smallest change of some parameters to the largest of others, per model and task.

    ``others``: what the names of those begin with.
    """
    means = _changes_of(changes, method)
    compared = [name for name in _matching(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return NOTHING
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


def change_beside_others(changes: pd.DataFrame, method: str, name: str, others: str) -> pd.Series:
    """A parameter's change as a share of the mean of others', per model and task."""
    means = _changes_of(changes, method)
    compared = [other for other in _matching(means, others) if other != name]
    if name not in means or not compared:
        return NOTHING
    return (means[name] / means[compared].mean(axis=1)).dropna()


def change_and_score(
    changes: pd.DataFrame,
    chosen: pd.DataFrame,
    method: str,
    parts: Mapping[str, Sequence[str]],
) -> pd.Series:
    """Rank correlation of how much parameters change and of what they score when trained alone.

    Args:
        changes: from `subtune.analysis.changes.changes_of_methods`.
        chosen: the runs of the best learning rates.
        method: the method whose changes are compared, which trains all these parameters.
        parts: method to the parameters that it trains.

    Returns:
        One number per model, task whose changes there are, and seed of the scores, which are means
        over tasks; with the sign turned, so that a positive correlation is below 0.
    """
    means, scores = _changes_of(changes, method), _by_method(chosen)
    methods = [m for m, names in parts.items() if m in scores and set(names) <= set(means)]
    if len(methods) < FEWEST_PAIRS:
        return NOTHING
    changed = pd.DataFrame({m: means[list(parts[m])].mean(axis=1) for m in methods})
    averages = scores[methods].dropna().groupby(level=["model", "seed"]).mean()
    return pd.Series(
        {
            (model, task, seed): -rank_correlation(row, averages.loc[(model, seed)])
            for (model, task), row in changed.iterrows()
            for seed in averages.index.get_level_values("seed").unique()
            if (model, seed) in averages.index
        },
        dtype=float,
    ).rename_axis(["model", "task", "seed"])
