"""The GLUE server: the zip files that it takes, and the scores that it returns."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis.scores import best_of_seeds
from subtune.core.errors import SubtuneError, placed
from subtune.planning.jobs import NAMES
from subtune.tasks import TASKS, Task
from subtune.tasks.formats import delimited_rows
from subtune.tasks.metrics import COEFFICIENTS

HEADER = ("index", "prediction")
# Numbers of rows of the published test splits.
ROWS = {
    "CoLA.tsv": 1063,
    "SST-2.tsv": 1821,
    "MRPC.tsv": 1725,
    "STS-B.tsv": 1379,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "QNLI.tsv": 5463,
    "RTE.tsv": 3000,
    "WNLI.tsv": 146,
    "QQP.tsv": 390965,
    "AX.tsv": 1104,
}
# Tasks whose labels are words in the server's files; the other labels are numbers.
IN_WORDS = ("mnli", "qnli", "rte")
# A fixed timestamp, so that equal predictions give identical zip files.
NO_TIME = (1980, 1, 1, 0, 0, 0)
# Columns of the table with the origin of each file.
CONTENTS = ("file", "made_of", "learning_rate", "seed", "dev_score")
# The server shows percentages, and correlations times 100.
SCALE = 100
EXPECTED = f"0 to {SCALE}"


class ServerFile(NamedTuple):
    """One file of a submission: a row per test example, numbered from 0."""

    name: str
    task: Task
    split: str
    rows: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of their numbers; empty for a regression."""
        labels = self.task.labels or ()
        return labels if self.task.name in IN_WORDS else tuple(map(str, range(len(labels))))

    @property
    def constant(self) -> str:
        """The prediction for every row if no run predicts the file."""
        return self.labels[0] if self.labels else f"{(self.task.score_range or (0.0, 0.0))[0]:.3f}"


_SPLITS = {
    name: (task, split)
    for task in TASKS.values()
    if task.submission
    for name, split in zip(task.submission, task.test, strict=True)
}
FILES = {name: ServerFile(name, *_SPLITS[name], rows) for name, rows in ROWS.items()}


def in_words(file: ServerFile, logits: np.ndarray) -> list[str]:
    """Return predictions in the server's form, from logits ``[n, o]``."""
    if file.labels:
        return [file.labels[number] for number in logits.argmax(axis=1)]
    low, high = file.task.score_range or (-np.inf, np.inf)
    return [f"{value:.3f}" for value in np.clip(logits[:, 0], low, high)]


def write_zip(path: Path, predictions: Mapping[str, list[str]]) -> None:
    """Write every file that the server takes; a file without predictions has its constant in every
    row.

    Args:
        path: the zip file.
        predictions: file name to one prediction per row.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in FILES.items():
            rows = predictions.get(name) or [file.constant] * file.rows
            entry = zipfile.ZipInfo(name, NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            lines = ["\t".join(HEADER), *(f"{number}\t{row}" for number, row in enumerate(rows))]
            archive.writestr(entry, "\n".join(lines) + "\n")


def submission(
    predicted: pd.DataFrame, best: pd.DataFrame
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """Return one method's predictions per file, and the origin of each file.

    Args:
        predicted: logits of all tasks' test splits, from
            `subtune.runs.recording.predict_test_rows`.
        best: the method's run per task: ``task``, ``run``, ``learning_rate``, ``seed``, ``value``
            (empty if the run diverged).

    Returns:
        Predictions by file name; and a table with the columns of `CONTENTS`, a row per file.
    """
    runs = best.set_index("task")
    predictions, rows = {}, []
    for name, file in FILES.items():
        logits, made_of = _logits(file, predicted, runs)
        facts = [None] * 3
        if logits is None:
            made_of = f"every row {file.constant}: {made_of}"
        else:
            predictions[name] = in_words(file, logits)
            run = runs.loc[file.task.name]
            facts = [run["learning_rate"], run["seed"], run["value"]]
        rows.append((name, made_of, *facts))
    return predictions, pd.DataFrame(rows, columns=list(CONTENTS))


def _logits(
    file: ServerFile, predicted: pd.DataFrame, runs: pd.DataFrame
) -> tuple[np.ndarray | None, str]:
    """Return a file's logits and its run, or the reason why there are none; ``runs`` is by task."""
    task = file.task.name
    if task not in runs.index:
        return None, "the task was not run"
    run, score = runs.loc[task, ["run", "value"]]
    if pd.isna(score):
        return None, f"run {run} diverged"
    table = predicted[(predicted["run"] == run) & (predicted["split"] == file.split)]
    logits = table.filter(like="logit_").dropna(axis=1).to_numpy()
    if len(logits) != file.rows:
        return None, f"found {len(logits):,} test rows, but the server has {file.rows:,}"
    if not np.isfinite(logits).all():
        return None, f"a prediction of run {run} is not finite"
    return logits, f"run {run}"


def returned_scores(path: Path, forms: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the entered scores, on the scale 0–1; rows without a score are left out.

    Args:
        path: a CSV file with the columns of `FORM`; ``metric`` is not read.
        forms: the rows of all experiments' forms.

    Returns:
        ``experiment``, ``model``, ``method``, ``task``, ``value``.

    Raises:
        SubtuneError: the file cannot be read, or a row is not in a form.
    """
    needed = [*NAMES, "score"]
    metrics = {tuple(row[name] for name in NAMES): row["metric"] for row in forms}
    entered = []
    with placed("test_scores"):
        for place, cells in delimited_rows(path, needed, lambda cells: True):
            if lacking := [column for column in needed if column not in cells]:
                raise SubtuneError(f"{path}: column {lacking[0]!r} is required")
            *names, text = (cells[column].strip() for column in needed)
            if not text:
                continue
            if problem := _problem(text, metrics.get(tuple(names))):
                raise SubtuneError(f"{path}: {place}: {problem}")
            entered.append([*names, float(text) / SCALE])
    return pd.DataFrame(entered, columns=[*NAMES, "value"]).astype({"value": float})


def _problem(text: str, metric: str | None) -> str | None:
    """Return what is wrong with a score; ``metric`` is None for rows outside the form."""
    if metric is None:
        return "found no such row in the form, expected the names of one of its rows"
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not -SCALE <= score <= SCALE:
        return f"score: found {text!r}, expected a number, {EXPECTED}"
    # Only a coefficient can be near 0 or negative.
    if metric not in COEFFICIENTS and not (score == 0 or score > 1):
        return f"score: found {text!r}, expected the server's scale, {EXPECTED}"
    return None


def as_chosen(chosen: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose predictions were sent, with test scores instead of dev scores.

    Args:
        chosen: the runs of the best learning rates.
        scores: the same experiment's scores, from `returned_scores`.

    Returns:
        The columns of ``chosen``, one row per test score.
    """
    best = best_of_seeds(chosen).dropna(subset=["value"])
    sent = chosen[chosen["run"].isin(best["run"])].drop(columns="value")
    returned = scores.drop(columns="experiment").rename(columns={"task": "column"})
    return sent.merge(returned, on=["model", "method", "column"], how="inner")
