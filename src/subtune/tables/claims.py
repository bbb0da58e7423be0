"""A paper's claims as a checklist."""

import pandas as pd

from subtune.analysis.verdicts import NOT_ENOUGH
from subtune.tables.writing import EMPTY, Emphasis, Styled

# What wraps in a paper's table.
WIDE = {"claim": 0.28, "statistic": 0.28}


def checklist(claims: pd.DataFrame) -> Styled:
    """One row per claim: what was computed, of how many tasks or columns, and what follows.

    Verdicts that runs were enough for are bold.

    Args:
        claims: from `subtune.analysis.claims.claims_table`.
    """
    table = pd.DataFrame(
        {
            "claim": claims["claim"],
            "verdict": claims["verdict"],
            "this run": claims["ours"].map(_number),
            "95 % interval": [
                EMPTY if pd.isna(low) else f"{_number(low)} to {_number(high)}"
                for low, high in zip(claims["low"], claims["high"], strict=True)
            ],
            "paper": claims["paper"].map(_number),
            "p": claims["p_value"].map(_number),
            "of": claims["units"],
            "statistic": claims["statistic"],
            "printed in": claims["printed"],
        }
    )
    bold = pd.DataFrame(False, index=table.index, columns=table.columns)
    bold = bold.assign(verdict=table["verdict"] != NOT_ENOUGH)
    return Styled(table, Emphasis(bold=bold, wide=WIDE))


def _number(value: float) -> str:
    return EMPTY if pd.isna(value) else f"{value:.3f}"
