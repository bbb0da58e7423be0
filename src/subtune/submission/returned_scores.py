"""Scores that the GLUE server returns, as they are entered in a form."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.scores import best_of_seeds
from subtune.errors import SubtuneError, one_of
from subtune.submission.planned import FORM, NAMES

# The server shows percentages, and correlations times 100.
SCALE = 100


def read(path: Path, forms: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Scores that were entered, on the scale 0–1. Rows without a score are left out.

    Args:
        path: a CSV file with the columns of `FORM`; ``metric`` is for people to read.
        forms: the rows of all experiments' forms.

    Returns:
        ``experiment``, ``model``, ``method``, ``task``, ``value``.

    Raises:
        SubtuneError: the file cannot be read, or a row is not one that was asked for.
    """
    known = pd.DataFrame(forms, columns=FORM)
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise SubtuneError(f"test_scores: found no file {str(path)!r}") from None
    except (ValueError, OSError) as error:
        raise SubtuneError(f"test_scores: {path} is not a readable CSV file: {error}") from None
    for column in [*NAMES, "score"]:
        if column not in table:
            raise SubtuneError(f"test_scores: {path}: column {column!r} is missing, and needed")
    table = table[table["score"].str.strip() != ""]
    for number, row in table.iterrows():
        problem = _problem(row, known)
        if problem:
            raise SubtuneError(f"test_scores: {path}: line {number + 2}: {problem}")
    twice = table[table.duplicated(NAMES)]
    if len(twice):
        raise SubtuneError(f"test_scores: {path}: line {twice.index[0] + 2}: entered twice")
    value = table["score"].astype(float)
    if len(value) and value.abs().max() <= 1:
        raise SubtuneError(
            f"test_scores: {path}: found no score above 1, expected the server's scale, 0 to 100"
        )
    return table[NAMES].assign(value=value / SCALE).reset_index(drop=True)


def _problem(row: pd.Series, known: pd.DataFrame) -> str | None:
    for name in NAMES:
        left = known[known[name] == row[name]]
        if left.empty:
            return f"{name}: {one_of(row[name], known[name].unique())}"
        known = left
    try:
        in_range = -SCALE <= float(row["score"]) <= SCALE
    except ValueError:
        in_range = False
    return None if in_range else f"score: found {row['score']!r}, expected a number, 0 to 100"


def as_chosen(chosen: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """The runs whose predictions were sent, with test scores in place of those on dev.

    Args:
        chosen: the runs of the best learning rates.
        scores: of the same experiment, from `read`.

    Returns:
        The columns of ``chosen``, one row per test score.
    """
    best = best_of_seeds(chosen).dropna(subset=["value"])
    sent = chosen[chosen["run"].isin(best["run"])].drop(columns="value")
    returned = scores.drop(columns="experiment").rename(columns={"task": "column"})
    return sent.merge(returned, on=["model", "method", "column"], how="inner")
