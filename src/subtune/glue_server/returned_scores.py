"""Scores that the GLUE server returned, as someone entered them in a form."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.scores import best_of_seeds
from subtune.core.errors import SubtuneError, one_of
from subtune.planning.submissions import FORM, NAMES
from subtune.tasks.formats import delimited
from subtune.tasks.metrics import COEFFICIENTS

# The server shows percentages, and correlations times 100.
SCALE = 100
EXPECTED = f"0 to {SCALE}"


def read(path: Path, forms: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the scores that were entered, on the scale 0–1, without rows that have no score.

    Args:
        path: a CSV file with the columns of `FORM`; ``metric`` is for people to read.
        forms: the rows of all experiments' forms.

    Returns:
        ``experiment``, ``model``, ``method``, ``task``, ``value``.

    Raises:
        SubtuneError: the file cannot be read, or a row is not in a form.
    """
    form = pd.DataFrame(forms, columns=FORM)
    line_of: dict[tuple[str, ...], int] = {}
    entered = []
    for line, cells in _filled_rows(path):
        names = tuple(cells[name] for name in NAMES)
        problem = _problem(cells, form)
        if line_of.setdefault(names, line) != line:
            problem = f"entered twice, in line {line_of[names]} too"
        if problem:
            raise SubtuneError(f"test_scores: {path}: line {line}: {problem}")
        entered.append((*names, float(cells["score"]) / SCALE))
    table = pd.DataFrame(entered, columns=[*NAMES, "value"]).astype({"value": float})
    if 0 < table["value"].abs().max() <= 1 / SCALE:
        raise SubtuneError(
            f"test_scores: {path}: found no score above 1, expected the server's scale, {EXPECTED}"
        )
    return table


def _filled_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the rows that have a score, each with its line."""
    needed = [*NAMES, "score"]
    try:
        rows = list(delimited.rows(path, needed, lambda cells: True))
    except SubtuneError as error:
        raise SubtuneError(f"test_scores: {error}") from None
    if not rows:
        raise SubtuneError(f"test_scores: {path}: found no rows, expected those of the form")
    for column in needed:
        if column not in rows[0][1]:
            raise SubtuneError(f"test_scores: {path}: column {column!r} is missing, and needed")
    return [(line, cells) for line, cells in rows if cells["score"].strip()]


def _problem(cells: Mapping[str, str], form: pd.DataFrame) -> str | None:
    for name in NAMES:
        matching = form[form[name] == cells[name]]
        if matching.empty:
            return f"{name}: {one_of(cells[name], form[name].unique())}"
        form = matching
    text = cells["score"].strip()
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not -SCALE <= score <= SCALE:
        return f"score: found {text!r}, expected a number, {EXPECTED}"
    # Only a coefficient may be near 0, or below.
    if form["metric"].iloc[0] not in COEFFICIENTS and not (score == 0 or score > 1):
        return f"score: found {text!r}, expected the server's scale, {EXPECTED}"
    return None


def as_chosen(chosen: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose predictions were sent, with test scores instead of dev scores.

    Args:
        chosen: the runs of the best learning rates.
        scores: the same experiment's scores, from `read`.

    Returns:
        The columns of ``chosen``, one row per test score.
    """
    best = best_of_seeds(chosen).dropna(subset=["value"])
    sent = chosen[chosen["run"].isin(best["run"])].drop(columns="value")
    returned = scores.drop(columns="experiment").rename(columns={"task": "column"})
    return sent.merge(returned, on=["model", "method", "column"], how="inner")
