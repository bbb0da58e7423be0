"""A table of the files for the GLUE server."""

import pandas as pd

from subtune.exhibits.tables.choices import short
from subtune.exhibits.tables.writing import EMPTY


def contents(parts: pd.DataFrame) -> pd.DataFrame:
    """Return a row per file: the run that predicted it, or why it holds a constant.

    Args:
        parts: ``submission``, and the columns of `subtune.glue_server.writing.CONTENTS`.
    """
    return pd.DataFrame(
        {
            "submission": parts["submission"],
            "file": parts["file"],
            "made of": parts["made_of"],
            "learning rate": [EMPTY if pd.isna(r) else short(r) for r in parts["learning_rate"]],
            "seed": [EMPTY if pd.isna(seed) else f"{seed:g}" for seed in parts["seed"]],
            "dev score": [EMPTY if pd.isna(v) else f"{v:.4f}" for v in parts["dev_score"]],
        }
    )
