"""Tables as public bug reports have them, made in code."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

ROWS = 200
SUBJECTS = ("the first train", "a long dinner", "our old bank card", "this new phone")


def sentences(rows: int = ROWS) -> list[str]:
    """Texts that all differ."""
    return [f"{SUBJECTS[n % 4]} was late by {n} minutes" for n in range(rows)]


def frame(labels=("good", "bad"), label="label", rows: int = ROWS, **others) -> pd.DataFrame:
    """Texts with labels in turn, between other columns."""
    cells = [labels[n % len(labels)] for n in range(rows)]
    return pd.DataFrame({**others, "text": sentences(rows), label: cells})


def csv(**columns) -> Callable[[Path], None]:
    """A writer of a CSV file."""
    return lambda path: frame(**columns).to_csv(path, index=False)


def text(content: str) -> Callable[[Path], object]:
    """A writer of a file with this content."""
    return lambda path: path.write_bytes(content.encode())


def lines(labels=("good", "bad"), rows: int = 40, last: str = "", sign: str = ",") -> str:
    """A delimited table as text, with further lines at its end."""
    cells = (f"{text}{sign}{labels[n % len(labels)]}\n" for n, text in enumerate(sentences(rows)))
    return f"text{sign}label\n{''.join(cells)}{last}"


TITLES = [f"{who} {what}" for who in ("Ada", "Emmy", "Grace", "Mary") for what in "ABCDEFGHIJ"]
DATES = [f"2021-03-{1 + n % 28:02} 10:{n % 60:02}" for n in range(40)]
BOTH = ['["toxic", "insult"]', "[]", '["insult"]', '["toxic"]']
NLI = {
    "pairID": [f"{n}e" for n in range(40)],
    "sentence1": sentences(40),
    "sentence2": sentences(80)[40:],
    "gold_label": ["entailment", "neutral"] * 20,
}
# The name of each table's file, and what writes it.
TABLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "JSON lines called JSON": ("t.json", text(frame().to_json(orient="records", lines=True))),
    "stars": ("t.csv", csv(label="stars", labels=(1, 2, 3, 4, 5))),
    "category": ("t.csv", csv(label="category")),
    "sentiment": ("t.csv", csv(label="Sentiment", author=["me", "you"] * (ROWS // 2))),
    "the only column that can be the label": (
        "t.csv",
        csv(label="mood", id=range(ROWS), created=(DATES * 5)),
    ),
    "two columns that can be the label": (
        "t.csv",
        csv(label="mood", author=["me", "you", "they", "we"] * (ROWS // 4)),
    ),
    "capitals": (
        "t.csv",
        text(lines(("False", "TRUE", "False", "TRUE"), last="a,false \nb,false \n")),
    ),
    "two rows without a label at the end": ("t.csv", csv(labels=["x", "y"] * 99 + [None] * 2)),
    "many rows without a label": ("t.csv", csv(labels=["x", "y", "x", None])),
    "Excel's CSV": ("t.csv", text("\ufeff" + lines(sign=";").replace("\n", "\r\n"))),
    "titles with ids and dates": (
        "t.csv",
        lambda path: pd.DataFrame(
            {
                "imdb": [f"tt{n:07}" for n in range(40)],
                "when": DATES,
                "title": TITLES,
                "genre": ["comedy", "drama"] * 20,
            }
        ).to_csv(path, index=False),
    ),
    "pairs": ("t.tsv", lambda path: pd.DataFrame(NLI).to_csv(path, index=False, sep="\t")),
    "95:5": ("t.csv", csv(labels=["ham"] * 19 + ["spam"])),
    "scores": ("t.csv", csv(label="score", labels=[n / 8 for n in range(40)])),
    "the index of pandas": ("t.csv", lambda path: frame().to_csv(path)),
    "lists of labels": ("t.csv", csv(label="labels", labels=BOTH)),
    "labels as columns": (
        "t.csv",
        csv(label="toxic", labels=[0, 1], insult=[0, 1, 1, 1] * (ROWS // 4)),
    ),
}
