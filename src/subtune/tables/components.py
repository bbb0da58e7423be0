"""Components of a layer by Fisher information."""

import pandas as pd

from subtune.analysis import information


def component_ranking(shares: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Components by summed normalised Fisher information, beside a paper's ranks.

    Args:
        shares: from `subtune.analysis.information.component_shares`.
        printed: ``component`` and ``rank``.
    """
    total = information.component_ranking(shares)
    return pd.DataFrame(
        {
            "rank": range(1, len(total) + 1),
            "component": total.index,
            "information": [f"{value:.4f}" for value in total],
            "paper's rank": printed.set_index("component")["rank"].loc[total.index].to_numpy(),
        }
    )
