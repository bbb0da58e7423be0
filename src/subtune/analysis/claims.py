"""A paper's claims, asked of our numbers and of the printed ones."""

import math
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name

import numpy as np
import pandas as pd

from subtune.analysis import verdicts
from subtune.analysis.information import complete_layers
from subtune.analysis.scores import by_method
from subtune.analysis.significance import kruskal_wallis
from subtune.papers import printed
from subtune.papers.base import Claim, Measure, Paper

# A value nearer to 0 than this counts as no difference: two points of a score, 5 % of a ratio, 2 %
# of all information, a weak rank correlation.
EQUIVALENCE_MARGINS: dict[Measure, float] = {
    "score": 0.02,
    "ratio": 0.05,
    "share": 0.02,
    "rank correlation": 0.1,
}

Tables = Mapping[str, pd.DataFrame]


def claims_table(paper: Paper, tables: Tables) -> pd.DataFrame:
    """A paper's claims, asked of our numbers and of the printed ones.

    Args:
        paper: whose claims.
        tables: data by name; claims that read another table have no units.

    Returns:
        ``claim``, ``printed`` (section and exhibit), ``statistic``, ``paper`` (of the printed
        numbers), ``units``, ``ours`` (the mean over units), ``low``, ``high`` (its interval),
        ``p_value`` and ``verdict``.
    """
    rows = []
    for claim in paper.claims:
        units = _units(claim, tables)
        interval = verdicts.interval(units)
        verdict = verdicts.verdict(claim.kind, interval, _margin(claim))
        p_value = _p_value(claim.groups, tables["chosen"])
        if p_value is not None and p_value < 1 - verdicts.LEVEL:
            verdict = verdicts.NOT_SUPPORTED
        values = [_printed_mean(claim, paper), *interval]
        if claim.measure == "ratio":
            values = [float(np.exp(value)) for value in values]
        about = (claim.text, claim.printed_in, claim.statistic)
        rows.append((*about, values[0], len(units), *values[1:], p_value, verdict))
    names = ["claim", "printed", "statistic", "paper", "units", "ours", "low", "high"]
    return pd.DataFrame(rows, columns=[*names, "p_value", "verdict"])


def _units(claim: Claim, tables: Tables) -> Sequence[float]:
    table = tables.get(claim.reads)
    if table is None or table.empty:
        return []
    return resolve_name(claim.units)(table, *claim.of)


def _margin(claim: Claim) -> float:
    margin = EQUIVALENCE_MARGINS[claim.measure]
    return math.log(1 + margin) if claim.measure == "ratio" else margin


def _printed_mean(claim: Claim, paper: Paper) -> float:
    """The claim's statistic of the printed numbers; of averages, where nothing else is printed."""
    scores = printed_scores(paper)
    shares = {data: printed_shares(paper, name) for data, name in paper.printed_shares.items()}
    single = _units(claim, {"chosen": scores[~scores["is_average"]]} | shares)
    units = single if len(single) else _units(claim, {"chosen": scores[scores["is_average"]]})
    return verdicts.interval(units).mean


def printed_scores(paper: Paper) -> pd.DataFrame:
    """A paper's dev scores in the form of chosen runs, each cell once."""
    scores = printed.scores(paper.name)
    scores = scores[scores["split"] == "validation"].rename(columns={"task": "column"})
    scores = scores.drop_duplicates(["model", "method", "column"])
    return scores.drop(columns="params").assign(scope=None, fraction=1.0)


def printed_shares(paper: Paper, name: str) -> pd.DataFrame:
    """A printed table whose ``value`` is taken as a ``share`` of the task's sum.

    A task's layers with a missing value are left out.
    """
    table = complete_layers(printed.table(paper.name, name).rename(columns={"value": "share"}))
    return table.assign(share=table["share"] / table.groupby("task")["share"].transform("sum"))


def _p_value(groups: tuple[str, str] | None, chosen: pd.DataFrame) -> float | None:
    if groups is None or not set(groups) <= set(chosen["method"]):
        return None
    wide = by_method(chosen)[list(groups)].dropna()
    if len(wide) < verdicts.FEWEST_UNITS:
        return None
    return kruskal_wallis(*(wide[group].tolist() for group in groups))
