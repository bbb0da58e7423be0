"""Test the claims of papers on reproduced numbers and on the numbers printed in the papers.

A claim expects a number ``x`` to be in a range. Two methods count as equal if the absolute value of
``x`` is below the equivalence margin. For ``more``, any difference suffices.

* ``more``: ``x > 0``
* ``same``: ``abs(x) < margin``
* ``no less``: ``x >= -margin``
* ``not significant``: ``x``, a p-value, is at least `SIGNIFICANCE`

A claim holds by the criterion of its paper: the mean of ``x`` over cells, or the number of cells
with ``x`` in the range. This criterion ignores chance. Therefore the mean over units is given with
a 95 % interval. The units are seeds if there are at least `FEWEST_UNITS`, otherwise tasks, or pairs
of a model and a task. If a claim compares scores over seeds, the interval also accounts for the
variance between examples, as that of an answer does (`subtune.analysis.intervals`). Otherwise, it
is Student's interval.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import have_same_unit
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.run_scores import PART_COLUMNS
from subtune.analysis.statistics import SIGNIFICANCE, minus

Expectation = Literal["more", "same", "no less", "not significant"]
Measure = Literal["score", "ratio", "share", "rank correlation", "rank", "epochs", "p"]
# Differences below these margins count as ties. The margins are 0.02 for scores, 5 % for ratios,
# 2 % of the total information for shares, and 0.1 (a weak correlation) for rank correlations. Every
# difference between two ranks or two numbers of epochs counts.
EQUIVALENCE_MARGINS: dict[Measure, float] = {
    "score": 0.02,
    "ratio": 0.05,
    "share": 0.02,
    "rank correlation": 0.1,
    "rank": 0.5,
    "epochs": 0.0,
    "p": 0.0,
}
FEWEST_UNITS = 3
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
NOT_PRINTED, UNDECIDED = "not printed", "undecided"


def claim_holds(expects: Expectation, value: float, equivalence_margin: float) -> bool:
    """Return whether a number is in the range that a claim expects."""
    if expects == "more":
        return value > 0
    if expects == "same":
        return abs(value) < equivalence_margin
    if expects == "not significant":
        return value >= SIGNIFICANCE
    return value >= -equivalence_margin


def average_by_unit(cells: pd.Series) -> tuple[str, pd.Series]:
    """Choose the units of an interval; return their name, such as ``model × task``, and values.

    Only seeds with a value in every cell are kept, so that all means are over the same cells.
    """
    if "seed" in cells.index.names and cells.index.nlevels > 1:
        wide = cells.unstack("seed")
        complete = wide.dropna(axis="columns")
        if complete.shape[1] >= FEWEST_UNITS:
            return "seed", complete.mean()
        cells = wide.mean(axis=1)
    # The unit is named after the index levels with more than one value. Each of MNLI's two score
    # columns counts as a task.
    levels = [level for level in cells.index.names if level]
    several = [level for level in levels if cells.index.get_level_values(level).nunique() > 1]
    names = several or levels[-1:]
    return " × ".join("task" if name == "column" else str(name) for name in names), cells


def claim_interval(values: Sequence[float]) -> Interval:
    """Compute the mean over a claim's units, and its interval if there are enough units."""
    if len(values) < FEWEST_UNITS:
        return Interval(float(np.mean(values)) if len(values) else math.nan, math.nan, math.nan)
    return intervals.mean_interval([intervals.estimate_study(values, None, 0)])


def is_certain(expects: Expectation, interval: Interval, equivalence_margin: float) -> bool:
    """Return whether all numbers of an interval are in the expected range, or all outside of it.

    An interval of width 0 is no evidence. It occurs, for example, if all predictions are equal.
    """
    ends = interval.low, interval.high
    # Comparisons with NaN are false, so nothing is certain if the interval is unknown.
    if not interval.low < interval.high:
        return False
    are_in_range = [claim_holds(expects, end, equivalence_margin) for end in ends]
    # Two ends with the same sign cannot be on different sides of the expected range.
    return all(are_in_range) or (not any(are_in_range) and math.prod(ends) > 0)


Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, the statistic that tests it, and the paper's criterion.

    The criterion is the mean of the statistic, unless ``at_least`` or ``at_most`` is given.

    Attributes:
        printed_in: the sections, tables and figures of the paper that contain the claim.
        statistic: a description of what ``units`` computes.
        measure: the quantity that is compared. Ratios are compared as logarithms.
        reads: the names of the tables to pass as the first arguments of ``units``.
        units: computes one number per cell, where 0 means no difference.
        of: the remaining arguments of ``units``.
        tasks: the tasks of the claim; default: all tasks that the paper does not treat separately.
        at_least: the number of printed cells in the expected range, and the number of all printed
            cells. The claim holds if the share of cells in the range is at least their quotient.
        at_most: like ``at_least``, for a claim that holds if the share is at most the quotient.
        margin: the equivalence margin; default: the margin of ``measure``.
        is_printed: whether the paper contains numbers with which the claim can be tested.
        contradicted_by: the printed number that contradicts the claim, if any.
        is_main: whether the claim is listed in the summary that is printed in the terminal.
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
    at_most: tuple[int, int] | None = None
    margin: float | None = None
    is_printed: bool = True
    contradicted_by: str = ""
    is_main: bool = False

    def __post_init__(self) -> None:
        for counts in filter(None, (self.at_least, self.at_most)):
            if not 0 < counts[0] <= counts[1]:
                raise ValueError(f"found {[*counts]}, expected a number of cells and the total")
        if self.margin is not None and self.margin < 0:
            raise ValueError(f"margin: found {self.margin}, expected 0 or more")
        # Scores that are not printed can be those of scorers, which have no perfect score.
        if self.is_printed and self.measure == "score" and self.equivalence_margin() >= 1:
            raise ValueError(f"margin: found {self.margin}, expected a share of a perfect score")

    def equivalence_margin(self) -> float:
        """Return the claim's equivalence margin. For ratios, it is on the log scale."""
        margin = EQUIVALENCE_MARGINS[self.measure] if self.margin is None else self.margin
        return math.log(1 + margin) if self.measure == "ratio" else margin

    def criterion(self) -> str:
        if self.at_least:
            return "at least {} of {}".format(*self.at_least)
        if self.at_most:
            return "at most {} of {}".format(*self.at_most)
        return "p" if self.measure == "p" else "mean"


class Judgement(NamedTuple):
    """A verdict by a paper's criterion, and the number of ``cells`` on which it is based."""

    value: float
    cells: int
    judged: str


def evaluate_claims(
    claims: Sequence[Claim],
    reproduced: Tables,
    printed_tasks: Tables,
    printed_averages: Tables,
    tasks_apart: Collection[str] = (),
) -> pd.DataFrame:
    """Test a paper's claims on reproduced numbers and on the numbers printed in the paper.

    Args:
        reproduced: the reproduced tables, by name. A claim that reads a missing table has no cells.
            Without the table ``row_scores``, intervals do not account for examples.
        printed_tasks: the paper's tables with scores on each task, by the same names.
        printed_averages: the paper's tables with averages over tasks, by the same names.
        tasks_apart: tasks that the paper treats separately. Such a task is included only in claims
            that list it in ``tasks``.

    Returns:
        One row per claim, with the columns

        * ``claim``, ``is_main``, ``printed_in``, ``statistic``, ``contradicted_by``: from `Claim`
        * ``judged_by``: the paper's criterion as text
        * ``paper``, ``paper_cells``, ``paper_judged``: the `Judgement` from the printed numbers
        * ``ours``, ``cells``, ``judged``: the `Judgement` from the reproduced numbers
        * ``mean``, ``low``, ``high``: the mean over units and its interval
        * ``unit``, ``units``: the name of the unit, and the number of units; ``seed × example``
          counts the seeds
        * ``one_answer``: the number of cells that depend on a run with the same prediction for
          every example
        * ``is_certain``: whether the interval leaves no doubt (`is_certain`)
    """
    with_printed = {**reproduced, "printed": printed_tasks["printed"]}
    rows = []
    for claim in claims:
        data = _select_data(claim, with_printed, tasks_apart)
        printed = evaluate_criterion(claim, _select_data(claim, printed_tasks, tasks_apart))
        if claim.criterion() == "mean":
            # A printed average is preferred to the mean of the printed scores.
            averages = _select_data(claim, printed_averages, tasks_apart)
            printed = evaluate_criterion(claim, averages) or printed
        printed = printed or Judgement(math.nan, 0, NOT_PRINTED)
        rows.append(_build_claim_row(claim, data, printed, reproduced.get("row_scores")))
    return pd.DataFrame(rows)


def _select_data(claim: Claim, tables: Tables, tasks_apart: Collection[str]) -> list[pd.DataFrame]:
    """Select the rows of a claim's tasks from its tables.

    The result is empty if a table has no such rows, or if their scores have different units.
    """
    data = []
    for name in claim.reads:
        table = tables.get(name, pd.DataFrame())
        if "task" in table and claim.tasks:
            table = table[table["task"].isin(claim.tasks)]
        elif "task" in table:
            table = table[~table["task"].isin(list(tasks_apart))]
        if table.empty or ("margin" in table and not have_same_unit(table)):
            return []
        data.append(table)
    return data


def _build_claim_row(
    claim: Claim,
    data: Sequence[pd.DataFrame],
    printed: Judgement,
    row_scores: pd.DataFrame | None,
) -> dict[str, Any]:
    judgement = evaluate_criterion(claim, data) or Judgement(math.nan, 0, UNDECIDED)
    # The mean of several ranks or p-values says nothing about a claim.
    has_mean = claim.measure not in ("rank", "p")
    cells = _compute_cells(claim, data if has_mean else ())
    unit, units = average_by_unit(cells)
    interval = claim_interval(units.tolist())
    if unit == "seed" and row_scores is not None:
        cells = cells[cells.index.isin(units.index, level="seed")]
        if studies := _build_studies(claim, data, cells, row_scores):
            unit, interval = "seed × example", intervals.mean_interval(studies)
    if claim.measure == "rank correlation":
        interval = Interval(*np.clip(interval, -1, 1).tolist())
    certain = is_certain(claim.expects, interval, claim.equivalence_margin())
    if claim.measure == "ratio":
        interval = Interval(*(math.exp(value) for value in interval))
    return {
        "claim": claim.text,
        "is_main": claim.is_main,
        "printed_in": claim.printed_in,
        "statistic": claim.statistic,
        "judged_by": claim.criterion(),
        **dict(zip(("paper", "paper_cells", "paper_judged"), printed, strict=True)),
        **dict(zip(("ours", "cells", "judged"), judgement, strict=True)),
        "contradicted_by": claim.contradicted_by or None,
        **interval._asdict(),
        "unit": unit,
        "units": len(units),
        "one_answer": _count_one_answer(claim, data),
        # The mean of all cells does not test a claim about a number of cells.
        "is_certain": certain and claim.criterion() == "mean",
    }


def _build_studies(
    claim: Claim, data: Sequence[pd.DataFrame], cells: pd.Series, row_scores: pd.DataFrame
) -> list[Study]:
    """Estimate the variance of a difference of scores over seeds and examples, for each task.

    The claim's statistic is computed again without each part of the examples. ``cells`` are its
    values, and ``row_scores`` are the pseudo-values of runs.

    Returns:
        One study per task (and model), or [] if the examples of all scores are unknown. A study
        without examples, such as that of MNLI's second dev set, is over seeds only.
    """
    if claim.measure != "score" or "chosen" not in claim.reads:
        return []
    chosen = data[claim.reads.index("chosen")]
    # The pseudo-values are those of the score by which methods are compared.
    runs = chosen["run"].where(chosen["judges"] & chosen["fold"].isna())
    pseudo_values = row_scores.set_index("run").reindex(runs)[PART_COLUMNS].to_numpy(float)
    parts = np.isfinite(pseudo_values).sum(1, keepdims=True)
    without = (parts * chosen[["value"]].to_numpy() - pseudo_values) / (parts - 1)
    without_part = pd.DataFrame(index=cells.index)
    for part, scores in zip(PART_COLUMNS, without.T, strict=True):
        tables = [t.assign(value=scores) if t is chosen else t for t in data]
        without_part[part] = _compute_cells(claim, tables)
    number = without_part.notna().sum(axis=1)
    values = without_part.mul(1 - number, axis=0).add(number * cells, axis=0)
    studies = []
    for _, of_task in values.groupby(level=[name for name in values.index.names if name != "seed"]):
        known = of_task.dropna(axis="columns").to_numpy()
        differences, is_known = cells[of_task.index].tolist(), known.shape[1] > 1
        studies.append(intervals.estimate_study(differences, known if is_known else None, rows=0))
    return studies if any(study.parts for study in studies) else []


def _count_one_answer(claim: Claim, data: Sequence[pd.DataFrame]) -> int:
    """Count the cells that change without the runs that give one prediction for every example."""
    if not any("one_answer" in table and table["one_answer"].any() for table in data):
        return 0
    learned = [t[~t["one_answer"].astype(bool)] if "one_answer" in t else t for t in data]
    cells = _compute_cells(claim, data)
    if any(table.empty for table in learned):
        return len(cells)
    return int((_compute_cells(claim, learned).reindex(cells.index) != cells).sum())


def _compute_cells(claim: Claim, data: Sequence[pd.DataFrame]) -> pd.Series:
    return claim.units(*data, *claim.of).dropna() if data else pd.Series(dtype=float)


def evaluate_criterion(claim: Claim, data: Sequence[pd.DataFrame]) -> Judgement | None:
    """Test a claim on the tables that it reads, or return None if there are no numbers."""
    counts = claim.at_least or claim.at_most
    if counts:
        # A diverged method is treated as worse than all methods with a score.
        data = [t.assign(value=t["value"].fillna(-np.inf)) if "value" in t else t for t in data]
    cells = _compute_cells(claim, data)
    if cells.empty:
        return None
    if "seed" in cells.index.names and cells.index.nlevels > 1:
        # A cell of a paper's table is the mean over seeds.
        cells = cells.unstack("seed").mean(axis=1)
    margin = claim.equivalence_margin()
    value: float
    if counts:
        value = sum(claim_holds(claim.expects, cell, margin) for cell in cells)
        share, claimed = value / len(cells), counts[0] / counts[1]
        is_met = share >= claimed if claim.at_least else share <= claimed
    else:
        mean = float(cells.mean())
        value = math.exp(mean) if claim.measure == "ratio" else mean
        is_met = claim_holds(claim.expects, mean, margin)
    return Judgement(value, len(cells), HOLDS if is_met else DOES_NOT_HOLD)
