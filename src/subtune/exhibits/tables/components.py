"""Components of a layer by Fisher information."""

import pandas as pd

from subtune.analysis import information
from subtune.exhibits.tables.writing import EMPTY


def component_ranking(shares: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Rank components by their Fisher information, beside a paper's ranks.

    Args:
        shares: from `subtune.analysis.information.component_shares`.
        printed: ``component`` and ``rank``.
    """
    total = information.component_ranking(shares)
    ranks = printed.set_index("component")["rank"]
    return pd.DataFrame(
        {
            "rank": range(1, len(total) + 1),
            "component": total.index,
            "information": [f"{value:.4f}" for value in total],
            "paper's rank": [ranks.get(component, EMPTY) for component in total.index],
        }
    )
