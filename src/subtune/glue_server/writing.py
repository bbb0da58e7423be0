"""A zip file for the GLUE server, and a table of its contents."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.glue_server.server import FILES, HEADER, ServerFile

# One time for all files, so that the same predictions make the same zip file.
NO_TIME = (1980, 1, 1, 0, 0, 0)
CONTENTS = ("file", "made_of", "learning_rate", "seed", "dev_score")


def in_words(file: ServerFile, logits: np.ndarray) -> list[str]:
    """Return predictions as the server takes them, from logits ``[n, o]``."""
    if file.labels:
        return [file.labels[number] for number in logits.argmax(axis=1)]
    low, high = file.score_range or (-np.inf, np.inf)
    return [f"{value:.3f}" for value in np.clip(logits[:, 0], low, high)]


def write(path: Path, predictions: Mapping[str, list[str]]) -> None:
    """Write every file that the server takes; a file without predictions holds its constant.

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
    predicted: Mapping[str, pd.DataFrame], best: pd.DataFrame
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """Return one method's predictions per file, and what each file is made of.

    Args:
        predicted: task to logits of its test splits, from `subtune.runs.rescoring.on_test_rows`.
        best: the method's run per task: ``task``, ``run``, ``learning_rate``, ``seed``, ``value``,
            which is empty if the run diverged.

    Returns:
        File name to predictions; and a table with `CONTENTS`, a row per file.
    """
    runs = best.set_index("task")
    predictions, rows = {}, []
    for name, file in FILES.items():
        why_not = _why_not(file, predicted, runs)
        if why_not:
            rows.append((name, f"every row {file.constant}: {why_not}", *[None] * 3))
            continue
        run = runs.loc[file.task]
        predictions[name] = in_words(file, _logits(predicted[file.task], run["run"], file.split))
        rows.append((name, f"run {run['run']}", run["learning_rate"], run["seed"], run["value"]))
    return predictions, pd.DataFrame(rows, columns=list(CONTENTS))


def _why_not(
    file: ServerFile, predicted: Mapping[str, pd.DataFrame], runs: pd.DataFrame
) -> str | None:
    """Return why a file has no predictions, if so; ``runs`` by task."""
    if file.task not in runs.index:
        return "the task was not run"
    run, score = runs.loc[file.task, ["run", "value"]]
    if pd.isna(score):
        return f"run {run} diverged"
    logits = _logits(predicted[file.task], run, file.split)
    if len(logits) != file.rows:
        return f"found {len(logits):,} test rows, but the server has {file.rows:,}"
    return None if np.isfinite(logits).all() else f"a prediction of run {run} is not finite"


def _logits(table: pd.DataFrame, run: str, split: str) -> np.ndarray:
    rows = table[(table["run"] == run) & (table["split"] == split)]
    return rows.filter(like="logit_").dropna(axis=1).to_numpy()
