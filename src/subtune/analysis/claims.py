"""A paper's claims, asked of our numbers and of the printed ones."""

import math
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import verdicts
from subtune.analysis.information import complete_layers
from subtune.analysis.significance import kruskal_wallis, scores_of
from subtune.papers import printed
from subtune.papers.base import EQUIVALENCE_MARGINS, Claim, Paper

Tables = Mapping[str, pd.DataFrame]


class Judgement(NamedTuple):
    """What decides as the paper judges, of how many cells, and whether the claim holds.

    The value is a mean, a number of cells or a p-value; an order has none.
    """

    value: float
    cells: int
    holds: bool


def claims_table(paper: Paper, tables: Tables) -> pd.DataFrame:
    """A paper's claims, asked of our numbers and of the printed ones.

    Args:
        paper: whose claims.
        tables: data by name; claims that read another table have no cells.

    Returns:
        ``claim``, ``printed_in``, ``statistic``; ``judged_by``, ``paper`` and ``ours`` (what
        decides, of printed numbers and of ours), ``paper_cells`` and ``cells`` (of how many),
        ``paper_judged`` and ``judged``, ``contradicted_by``; ``mean``, ``low`` and ``high`` (the
        mean over units and its interval), ``unit``, ``units`` (how many) and ``verdict``.
    """
    of_tasks, of_averages = (printed_tables(paper, averages=averages) for averages in (False, True))
    ours = {**tables, "printed": of_tasks["printed"]}
    every = ours, of_tasks, of_averages
    together = [_without(tables_of_one, paper.tasks_apart) for tables_of_one in every]
    return pd.DataFrame(
        [_row(claim, *(every if claim.tasks else together)) for claim in paper.claims]
    )


def _without(tables: Tables, tasks: Sequence[str]) -> Tables:
    """The same tables without the rows of some tasks."""
    return {
        name: table[~table["task"].isin(tasks)] if "task" in table else table
        for name, table in tables.items()
    }


def _row(claim: Claim, ours: Tables, of_tasks: Tables, of_averages: Tables) -> dict[str, Any]:
    # A mean over tasks is asked of printed averages, where there are any.
    of_print = judge(claim, of_tasks)
    if claim.at_least is None:
        of_print = judge(claim, of_averages) or of_print
    unit, units = verdicts.units(cells_of(claim, ours))
    interval = verdicts.interval(units.tolist())
    limits = [*interval]
    if claim.measure == "ratio":
        limits = [float(np.exp(value)) for value in interval]
    return {
        "claim": claim.text,
        "printed_in": claim.printed_in,
        "statistic": claim.statistic,
        "judged_by": _judged_by(claim),
        **_columns(of_print, "paper", "paper_cells", "paper_judged", verdicts.NOT_PRINTED),
        **_columns(judge(claim, ours), "ours", "cells", "judged", verdicts.NOT_ENOUGH),
        "contradicted_by": claim.contradicted_by or None,
        **dict(zip(("mean", "low", "high"), limits, strict=True)),
        "unit": unit,
        "units": len(units),
        "verdict": _by_interval(claim, interval),
    }


def _by_interval(claim: Claim, interval: verdicts.Interval) -> str | None:
    """The interval's verdict; none of what holds in less than half of all cells, for which a mean
    says nothing.
    """
    if claim.at_least and 2 * claim.at_least[0] < claim.at_least[1]:
        return None
    return verdicts.verdict(claim.kind, interval, _margin(claim))


def _columns(
    judgement: Judgement | None, value: str, cells: str, judged: str, otherwise: str
) -> dict[str, Any]:
    if judgement is None:
        return {value: math.nan, cells: 0, judged: otherwise}
    words = verdicts.HOLDS if judgement.holds else verdicts.DOES_NOT_HOLD
    return {value: judgement.value, cells: judgement.cells, judged: words}


def _judged_by(claim: Claim) -> str:
    if claim.groups:
        return "p"
    if claim.order:
        return "order"
    return "mean" if claim.at_least is None else "at least {} of {}".format(*claim.at_least)


def cells_of(claim: Claim, tables: Tables) -> pd.Series:
    """A claim's statistic: a number per model, task and seed, as far as they are told apart."""
    data = _data_of(claim, tables)
    return _cells(claim, data) if data else pd.Series(dtype=float)


def _cells(claim: Claim, data: Sequence[pd.DataFrame]) -> pd.Series:
    return resolve_name(claim.units)(*data, *claim.of).dropna()


def judge(claim: Claim, tables: Tables) -> Judgement | None:
    """A claim as its paper judges it; nothing where there are no numbers."""
    data = _data_of(claim, tables)
    if not data:
        return None
    if claim.order:
        return Judgement(math.nan, 0, resolve_name(claim.order)(*data, *claim.of))
    if claim.groups:
        return _kruskal_wallis(claim.groups, data)
    if claim.at_least:
        # Whether a method is better somewhere is known of one that diverged: it is not.
        data = [_as_worst(table) for table in data]
    cells = _cells(claim, data)
    if cells.empty:
        return None
    if "seed" in cells.index.names and cells.index.nlevels > 1:
        # A cell of a paper's table is the mean over seeds.
        cells = cells.unstack("seed").mean(axis=1)
    if claim.at_least is None:
        mean = float(cells.mean())
        value = math.exp(mean) if claim.measure == "ratio" else mean
        return Judgement(value, len(cells), verdicts.holds(claim.kind, mean, _margin(claim)))
    number = sum(verdicts.holds(claim.kind, value, _margin(claim)) for value in cells)
    share = claim.at_least[0] / claim.at_least[1]
    return Judgement(number, len(cells), number / len(cells) >= share)


def _as_worst(table: pd.DataFrame) -> pd.DataFrame:
    """The same scores, those of diverged runs below all others."""
    return table.assign(value=table["value"].fillna(-np.inf)) if "value" in table else table


def _data_of(claim: Claim, tables: Tables) -> list[pd.DataFrame]:
    """The tables that a claim reads, of its tasks; none where one is not there."""
    data = [tables.get(name, pd.DataFrame()) for name in claim.reads]
    if claim.tasks:
        data = [t[t["task"].isin(claim.tasks)] if "task" in t else t for t in data]
    return [] if any(table.empty for table in data) else data


def _margin(claim: Claim) -> float:
    margin = EQUIVALENCE_MARGINS[claim.measure] if claim.margin is None else claim.margin
    return math.log(1 + margin) if claim.measure == "ratio" else margin


def _kruskal_wallis(groups: tuple[str, str], data: list[pd.DataFrame]) -> Judgement | None:
    """The test between two methods' scores of all tables; it holds where they do not differ."""
    wide = pd.concat([scores_of(groups, table) for table in data])
    if len(wide) < verdicts.FEWEST_UNITS:
        return None
    p_value = kruskal_wallis(*(wide[group].tolist() for group in groups))
    return Judgement(p_value, len(wide), p_value >= 1 - verdicts.LEVEL)


def printed_tables(paper: Paper, *, averages: bool) -> dict[str, pd.DataFrame]:
    """A paper's numbers in the form of ours, by the name of the data.

    Args:
        paper: the paper.
        averages: whether scores are averages over tasks, or of single tasks.
    """
    scores = printed_scores(paper)
    of_kind = scores[scores["is_average"] == averages]
    of_kind = of_kind.drop_duplicates(["split", "model", "method", "column"])
    return {
        "chosen": of_kind[of_kind["split"] == "validation"],
        "test_scores": of_kind[of_kind["split"] == "test"],
        "printed": scores,
        **{data: printed_data(paper, name) for data, name in paper.printed_data.items()},
    }


def printed_scores(paper: Paper) -> pd.DataFrame:
    """A paper's scores in the form of chosen runs, with their ``exhibit`` and ``split``."""
    scores = printed.scores(paper.name).rename(columns={"task": "column"})
    parts = scores["column"].str.partition("_")
    scores = scores.assign(
        task=parts[0], decides=parts[2] != "mismatched", scope=None, fraction=1.0, seed=0
    )
    keys = ["model", "method"]
    counts = printed.trained_parameters(paper.name)
    scores = scores.merge(counts, on=keys, how="left")
    rates = [
        printed.learning_rates(paper.name, table).assign(method=method)
        for method, table in paper.printed_learning_rates.items()
    ]
    return scores.merge(pd.concat(rates), on=[*keys, "task"], how="left") if rates else scores


def printed_data(paper: Paper, name: str) -> pd.DataFrame:
    """A printed table; a ``value`` is taken as a ``share`` of the task's sum.

    A task's layers with a missing value are left out.
    """
    table = printed.table(paper.name, name)
    if "value" in table:
        table = complete_layers(table.rename(columns={"value": "share"}))
        table["share"] /= table.groupby("task")["share"].transform("sum")
    return table
