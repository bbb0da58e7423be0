"""What the files for the GLUE server are made of."""

from collections.abc import Mapping

import pandas as pd

from subtune.tables.choices import shown
from subtune.tables.writing import EMPTY


def contents(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every file of every submission: the run that predicted it, or why it holds a constant.

    Args:
        parts: a submission's name to its table from `subtune.submission.writing.submission`.
    """
    table = pd.concat(part.assign(submission=f"{name}.zip") for name, part in parts.items())
    return pd.DataFrame(
        {
            "submission": table["submission"],
            "file": table["file"],
            "made of": table["made_of"],
            "learning rate": [EMPTY if pd.isna(r) else shown(r) for r in table["learning_rate"]],
            "seed": [EMPTY if pd.isna(seed) else f"{seed:g}" for seed in table["seed"]],
            "dev score": [EMPTY if pd.isna(v) else f"{v:.4f}" for v in table["dev_score"]],
        }
    )
