"""The answers as lines of a terminal."""

import shutil
import textwrap
from pathlib import Path

import pandas as pd

from subtune.papers.base import EQUIVALENCE_MARGINS

QUESTION = "Which few parameters are worth fine-tuning?"
WIDEST = 100


def answers_in_lines(path: Path) -> str:
    """Return the answers of a CSV file as lines, as wide as the terminal."""
    table = pd.read_csv(path, keep_default_na=False)
    width = min(WIDEST, shutil.get_terminal_size().columns)
    margin = EQUIVALENCE_MARGINS["score"]
    heading = f"The smallest method not below full fine-tuning by more than {margin}:"
    lines = ["", QUESTION, heading, ""]
    for model, rows in table.groupby("model", sort=False):
        lines.append(f"{model}:")
        for row in rows.to_dict("records"):
            text = f"{row['title']}: {row['answer']}"
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
        lines.append("")
    return "\n".join([*lines, f"More in {path.parent}: front.png, summary.md."])
