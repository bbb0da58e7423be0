"""A paper's claims as a checklist."""

import pandas as pd

from subtune.analysis.verdicts import NOT_ENOUGH
from subtune.tables.writing import EMPTY


def told(table: pd.DataFrame) -> pd.DataFrame:
    """Where a checklist's verdicts are that runs were enough for."""
    marked = pd.DataFrame(False, index=table.index, columns=table.columns)
    return marked.assign(verdict=table["verdict"] != NOT_ENOUGH)


# What wraps in a paper's table.
WIDE = {"claim": 0.28, "statistic": 0.28}


def checklist(claims: pd.DataFrame) -> pd.DataFrame:
    """One row per claim: what was computed, of how many tasks or columns, and what follows.

    Args:
        claims: from `subtune.analysis.claims.claims_table`.
    """
    return pd.DataFrame(
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


def _number(value: float) -> str:
    return EMPTY if pd.isna(value) else f"{value:.3f}"
