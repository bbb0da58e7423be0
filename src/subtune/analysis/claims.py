"""Claims of papers, tested on our numbers and on the printed ones.

A claim expects a number ``x`` to be in one of three ranges. A number closer to 0 than the
equivalence margin counts as no difference.

* ``more``: x > 0
* ``same``: x is within the margin
* ``no less``: x is not below the negative margin

Each claim is judged twice. A paper judges by its own criterion, one number: a mean, a count of
table cells, an order or a p-value. The claim then *holds* or *does not hold*.

The second verdict uses Student's 95 % interval for the mean over units. If there are at least
`FEWEST_UNITS` seeds, each seed is a unit: the mean over all its tasks and models. With fewer seeds,
each task is a unit, or each pair of model and task.

* ``more``: supported if the whole interval is above 0; not supported if it is wholly below the
  margin.
* ``same``: supported if the whole interval is within the margin; not supported if it is wholly
  outside.
* ``no less``: supported if no part of the interval is below the negative margin; not supported if
  it is wholly below.

In all other cases, and with fewer than `FEWEST_UNITS` units, the claim is undecided.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import by_method
from subtune.analysis.intervals import Interval
from subtune.analysis.statistics import SIGNIFICANCE, kruskal_wallis, minus

Expectation = Literal["more", "same", "no less"]
Measure = Literal["score", "ratio", "share", "rank correlation", "epochs"]
# A value closer to 0 than this counts as no difference: two points of a score, 5 % of a ratio, 2 %
# of all information, or a weak rank correlation.
EQUIVALENCE_MARGINS: dict[Measure, float] = {
    "score": 0.02,
    "ratio": 0.05,
    "share": 0.02,
    "rank correlation": 0.1,
    "epochs": 0.0,
}
FEWEST_UNITS = 3
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
NOT_PRINTED = "not printed"
SUPPORTED, NOT_SUPPORTED, UNDECIDED = "supported", "not supported", "undecided"


def holds(expects: Expectation, value: float, equivalence_margin: float) -> bool:
    """Return whether a number is in the range that a claim expects."""
    if expects == "more":
        return value > 0
    if expects == "same":
        return abs(value) < equivalence_margin
    return value >= -equivalence_margin


def interval_units(cells: pd.Series) -> tuple[str, pd.Series]:
    """Return the name of an interval's unit, and a number per unit.

    A seed is left out if it lacks a cell that other seeds have, so that all seeds are means over
    the same cells.

    Args:
        cells: from `subtune.analysis.statistics`.
    """
    if "seed" not in cells.index.names or cells.index.nlevels == 1:
        return _varying_levels(cells), cells
    wide = cells.unstack("seed")
    complete = wide.dropna(axis="columns")
    if complete.shape[1] >= FEWEST_UNITS:
        return "seed", complete.mean()
    means = wide.mean(axis=1)
    return _varying_levels(means), means


def _varying_levels(cells: pd.Series) -> str:
    """Return, in words, the index levels that vary between cells.

    Each of MNLI's two columns counts as a task.
    """
    levels = [level for level in cells.index.names if level]
    several = [level for level in levels if cells.index.get_level_values(level).nunique() > 1]
    names = several or levels[-1:]
    return " × ".join("task" if name == "column" else str(name) for name in names)


def claim_interval(values: Sequence[float]) -> Interval:
    """Return the mean of a claim's units and its interval."""
    if len(values) < FEWEST_UNITS:
        return Interval(float(np.mean(values)) if len(values) else math.nan, math.nan, math.nan)
    return intervals.mean_interval([intervals.estimate_study(values, None, 0)])


def interval_verdict(expects: Expectation, interval: Interval, equivalence_margin: float) -> str:
    """Return the verdict of an interval: supported, not supported, or undecided."""
    low, high, margin = interval.low, interval.high, equivalence_margin
    # Comparisons with NaN are false, so an unknown interval decides nothing.
    if holds(expects, low, margin) and holds(expects, high, margin):
        return SUPPORTED
    contradicted = {
        "more": high < margin,
        "same": low >= margin or high <= -margin,
        "no less": high < -margin,
    }[expects]
    return NOT_SUPPORTED if contradicted else UNDECIDED


Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, the statistic that tests it, and how the paper judges.

    Attributes:
        text: the claim in words.
        printed_in: the paper's sections and exhibits with the claim.
        statistic: what ``units`` computes, in words.
        expects: the range that supports the claim, as defined in `subtune.analysis.claims`.
        measure: the quantity that is compared; ratios are compared as logarithms.
        reads: names of the tables that ``units`` gets as its first arguments.
        units: the statistic: a function that returns one number per cell; 0 means no difference.
        of: the other arguments of ``units``.
        tasks: the tasks of the claim; default: all but those that the paper treats separately.
        at_least: the number of the paper's cells in the expected range, and the number of all its
            cells; the share of our cells must be at least as large. By default, the mean decides.
        order: a function with the same arguments as ``units``, which decides instead of the mean.
        groups: two methods; the Kruskal–Wallis test of their scores decides instead of the mean.
        margin: the equivalence margin; default: the margin of ``measure``.
        is_printed: whether the paper prints numbers that can test the claim.
        contradicted_by: the printed number that contradicts the claim, if there is one.
        is_main: whether the summary of a call names the claim.
    """

    text: str
    printed_in: str
    statistic: str
    expects: Expectation
    measure: Measure = "score"
    reads: tuple[str, ...] = ("chosen",)
    units: Callable[..., pd.Series] = minus
    of: tuple[Any, ...] = ()
    tasks: tuple[str, ...] = ()
    at_least: tuple[int, int] | None = None
    order: Callable[..., bool] | None = None
    groups: tuple[str, str] | None = None
    margin: float | None = None
    is_printed: bool = True
    contradicted_by: str = ""
    is_main: bool = False

    def equivalence_margin(self) -> float:
        """Return the equivalence margin. For a ratio, it is on the log scale."""
        margin = EQUIVALENCE_MARGINS[self.measure] if self.margin is None else self.margin
        return math.log(1 + margin) if self.measure == "ratio" else margin


class Judgement(NamedTuple):
    """A verdict by a paper's criterion.

    Attributes:
        value: the number that decides: a mean, a count or a p-value; NaN for an order.
        cells: the number of cells behind it.
        judged: the verdict.
    """

    value: float
    cells: int
    judged: str


def judge_claims(
    claims: Sequence[Claim],
    ours: Tables,
    printed_tasks: Tables,
    printed_averages: Tables,
    tasks_apart: Collection[str] = (),
) -> pd.DataFrame:
    """Test a paper's claims on our numbers and on the printed ones.

    Args:
        ours: our tables by name. A claim has no cells if a table that it reads is missing.
        printed_tasks: the paper's tables by the same names, with scores of single tasks.
        printed_averages: the paper's tables with averages over tasks.
        tasks_apart: tasks that a claim includes only if it names them.

    Returns:
        A row per claim.

        * ``claim``, ``is_main``, ``printed_in``, ``statistic``, ``contradicted_by``: from `Claim`
        * ``judged_by``: the paper's criterion in words
        * ``paper``, ``paper_cells``, ``paper_judged``: the `Judgement` of the printed numbers
        * ``ours``, ``cells``, ``judged``: the `Judgement` of our numbers
        * ``mean``, ``low``, ``high``: the mean over units and its interval
        * ``unit``, ``units``: the unit in words, and the number of units
        * ``verdict``: the verdict by the interval
    """
    with_printed = {**ours, "printed": printed_tasks["printed"]}
    rows = []
    for claim in claims:
        data = _select_data(claim, with_printed, tasks_apart)
        printed = judge(claim, _select_data(claim, printed_tasks, tasks_apart))
        if claim.at_least is None:
            # A mean over tasks is compared with printed averages, if there are any.
            averages = _select_data(claim, printed_averages, tasks_apart)
            printed = judge(claim, averages) or printed
        rows.append(_claim_row(claim, data, printed or Judgement(math.nan, 0, NOT_PRINTED)))
    return pd.DataFrame(rows)


def _select_data(claim: Claim, tables: Tables, tasks_apart: Collection[str]) -> list[pd.DataFrame]:
    """Return each table that a claim reads, with its tasks' rows; no tables if one is empty."""
    data = []
    for name in claim.reads:
        table = tables.get(name, pd.DataFrame())
        if "task" in table and claim.tasks:
            table = table[table["task"].isin(claim.tasks)]
        elif "task" in table:
            table = table[~table["task"].isin(list(tasks_apart))]
        if table.empty:
            return []
        data.append(table)
    return data


def _claim_row(claim: Claim, data: Sequence[pd.DataFrame], printed: Judgement) -> dict[str, Any]:
    ours = judge(claim, data) or Judgement(math.nan, 0, UNDECIDED)
    unit, units = interval_units(_cells(claim, data))
    interval = claim_interval(units.tolist())
    decided = interval_verdict(claim.expects, interval, claim.equivalence_margin())
    if claim.measure == "ratio":
        interval = Interval(*(math.exp(value) for value in interval))
    if claim.groups:
        criterion = "p"
    elif claim.order:
        criterion = "order"
    elif claim.at_least:
        criterion = "at least {} of {}".format(*claim.at_least)
    else:
        criterion = "mean"
    return {
        "claim": claim.text,
        "is_main": claim.is_main,
        "printed_in": claim.printed_in,
        "statistic": claim.statistic,
        "judged_by": criterion,
        "paper": printed.value,
        "paper_cells": printed.cells,
        "paper_judged": printed.judged,
        "ours": ours.value,
        "cells": ours.cells,
        "judged": ours.judged,
        "contradicted_by": claim.contradicted_by or None,
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "unit": unit,
        "units": len(units),
        # No mean can test a claim about less than half of all cells.
        "verdict": None
        if claim.at_least and 2 * claim.at_least[0] < claim.at_least[1]
        else decided,
    }


def _cells(claim: Claim, data: Sequence[pd.DataFrame]) -> pd.Series:
    """Return the claim's statistic, which is empty without data."""
    return claim.units(*data, *claim.of).dropna() if data else pd.Series(dtype=float)


def judge(claim: Claim, data: Sequence[pd.DataFrame]) -> Judgement | None:
    """Judge a claim by its paper's criterion; return None without numbers.

    Args:
        data: the tables that the claim reads.
    """
    if not data:
        return None
    if claim.order:
        is_first = claim.order(*data, *claim.of)
        return Judgement(math.nan, 0, HOLDS if is_first else DOES_NOT_HOLD)
    if claim.groups:
        # The claim holds if the scores of two methods do not differ.
        wide = pd.concat([by_method(table).reindex(columns=[*claim.groups]) for table in data])
        wide = wide.dropna()
        if len(wide) < FEWEST_UNITS:
            return None
        p_value = kruskal_wallis(*(wide[group].tolist() for group in claim.groups))
        return Judgement(p_value, len(wide), HOLDS if p_value >= SIGNIFICANCE else DOES_NOT_HOLD)
    if claim.at_least:
        # A method that diverged counts as worse than every other.
        data = [t.assign(value=t["value"].fillna(-np.inf)) if "value" in t else t for t in data]
    cells = _cells(claim, data)
    if cells.empty:
        return None
    if "seed" in cells.index.names and cells.index.nlevels > 1:
        # A cell of a paper's table is the mean over seeds.
        cells = cells.unstack("seed").mean(axis=1)
    margin = claim.equivalence_margin()
    value: float
    if claim.at_least:
        value = sum(holds(claim.expects, cell, margin) for cell in cells)
        is_met = value / len(cells) >= claim.at_least[0] / claim.at_least[1]
    else:
        mean = float(cells.mean())
        value = math.exp(mean) if claim.measure == "ratio" else mean
        is_met = holds(claim.expects, mean, margin)
    return Judgement(value, len(cells), HOLDS if is_met else DOES_NOT_HOLD)
