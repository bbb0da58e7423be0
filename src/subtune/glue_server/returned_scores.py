"""Scores that the GLUE server returns, as they are entered in a form."""

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
    form = pd.DataFrame(forms, columns=FORM)
    try:
        rows = list(delimited.rows(path, ",", [*NAMES, "score"], lambda cells: True))
    except FileNotFoundError:
        raise SubtuneError(f"test_scores: found no file {str(path)!r}") from None
    except (ValueError, OSError) as error:
        raise SubtuneError(f"test_scores: {path} is not a readable CSV file: {error}") from None
    except SubtuneError as error:
        raise SubtuneError(f"test_scores: {error}") from None
    if not rows:
        raise SubtuneError(f"test_scores: {path}: found no rows, expected those of the form")
    for column in [*NAMES, "score"]:
        if column not in rows[0][1]:
            raise SubtuneError(f"test_scores: {path}: column {column!r} is missing, and needed")
    line_of: dict[tuple[str, ...], int] = {}
    entered = []
    for line, cells in rows:
        if not cells["score"].strip():
            continue
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
            f"test_scores: {path}: found no score above 1, expected the server's scale, 0 to 100"
        )
    return table


def _problem(cells: Mapping[str, str], form: pd.DataFrame) -> str | None:
    for name in NAMES:
        matching = form[form[name] == cells[name]]
        if matching.empty:
            return f"{name}: {one_of(cells[name], form[name].unique())}"
        form = matching
    score = cells["score"].strip()
    try:
        in_range = -SCALE <= float(score) <= SCALE
    except ValueError:
        in_range = False
    if not in_range:
        return f"score: found {score!r}, expected a number, 0 to {SCALE}"
    # A coefficient may be near 0, or below.
    if form["metric"].iloc[0] not in COEFFICIENTS and not (float(score) == 0 or float(score) > 1):
        return f"score: found {score!r}, expected the server's scale, 0 to {SCALE}"
    return None


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
