"""A paper's claims as a checklist."""

from typing import Any

import pandas as pd

from subtune.analysis.verdicts import NOT_PRINTED, UNDECIDED
from subtune.exhibits.tables.writing import EMPTY, Styled

# Columns that wrap in LaTeX, and their share of the text's width.
WIDE = {"claim": 0.25, "statistic": 0.35, "contradicted by": 0.2}
VERDICTS = ["as the paper judges", "by the interval"]


def checklist(claims: pd.DataFrame) -> Styled:
    """Return a row per claim: both verdicts with their numbers, and what the paper's numbers say.

    Verdicts other than undecided are bold.

    Args:
        claims: from `subtune.analysis.claims.claims_table`.
    """
    table = pd.DataFrame([_row(claim) for claim in claims.to_dict("records")])
    return Styled(table, bold=~table[VERDICTS].isin([UNDECIDED, EMPTY]), wide=WIDE)


def _row(claim: dict[str, Any]) -> dict[str, str]:
    interval = f"{_number(claim['low'])} to {_number(claim['high'])}"
    return {
        "claim": claim["claim"],
        "as the paper judges": claim["judged"],
        "judged by": claim["judged_by"],
        "this run": _decides(claim, "ours", "cells", "judged"),
        "paper": _decides(claim, "paper", "paper_cells", "paper_judged"),
        "by the interval": EMPTY if pd.isna(claim["verdict"]) else claim["verdict"],
        "mean": _number(claim["mean"]),
        "95 % interval": EMPTY if pd.isna(claim["low"]) else interval,
        "over": _over(claim) if claim["units"] else EMPTY,
        "statistic": claim["statistic"],
        "printed in": claim["printed_in"],
        "contradicted by": EMPTY if pd.isna(claim["contradicted_by"]) else claim["contradicted_by"],
    }


def _decides(claim: dict[str, Any], value: str, cells: str, judged: str) -> str:
    """Return the mean, count, p-value or order that decides in the paper's way."""
    if claim[judged] == UNDECIDED:
        return EMPTY
    if claim[judged] == NOT_PRINTED or claim["judged_by"] == "order":
        return str(claim[judged])
    if claim["judged_by"].startswith("at least"):
        return f"{claim[value]:.0f} of {claim[cells]}"
    return _number(claim[value])


def _over(claim: dict[str, Any]) -> str:
    """Return the number of units in words: ``3 seeds``, ``27 models × tasks``."""
    parts = str(claim["unit"]).split(" × ")
    plural = "" if claim["units"] == 1 else "s"
    return f"{claim['units']} " + " × ".join(f"{part}{plural}" for part in parts)


def _number(value: float) -> str:
    return EMPTY if pd.isna(value) else f"{value:.3f}"
