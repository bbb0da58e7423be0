"""A submission as a zip file, and a table of what is in it."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.glue_server.server import FILES, HEADER, ServerFile

# So that the same predictions make the same file.
NO_TIME = (1980, 1, 1, 0, 0, 0)
CONTENTS = ("file", "made_of", "learning_rate", "seed", "dev_score")


def in_words(file: ServerFile, logits: np.ndarray) -> list[str]:
    """Predictions as the server reads them, from logits ``[n, o]``."""
    if file.labels:
        return [file.labels[number] for number in logits.argmax(axis=1)]
    low, high = file.score_range or (-np.inf, np.inf)
    return [f"{value:.3f}" for value in np.clip(logits[:, 0], low, high)]


def write(path: Path, predictions: Mapping[str, list[str]]) -> None:
    """Write every file that the server wants; one without predictions holds its constant.

    Args:
        path: the zip file.
        predictions: file name to one prediction per row.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in FILES.items():
            rows = predictions.get(name) or [file.constant] * file.rows
            entry = zipfile.ZipInfo(name, NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _table(rows))


def _table(rows: Iterable[str]) -> str:
    text = io.StringIO()
    text.write("\t".join(HEADER) + "\n")
    text.writelines(f"{number}\t{row}\n" for number, row in enumerate(rows))
    return text.getvalue()


def submission(
    predicted: Mapping[str, pd.DataFrame], best: pd.DataFrame
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """One method's predictions for every file that has some, and what each file is made of.

    Args:
        predicted: task to logits of its test splits, from `subtune.runs.rescoring.on_test_rows`.
        best: the method's run per task: ``task``, ``run``, ``learning_rate``, ``seed``, ``value``,
            empty where it diverged.

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
    """Why there is nothing to predict a file's rows with; ``runs`` by task."""
    if file.task not in runs.index:
        return "the task was not run"
    run, score = runs.loc[file.task, ["run", "value"]]
    if pd.isna(score):
        return f"run {run} diverged"
    logits = _logits(predicted[file.task], run, file.split)
    if len(logits) != file.rows:
        return f"found {len(logits):,} test rows, where the server has {file.rows:,}"
    return None if np.isfinite(logits).all() else f"run {run} predicts what is not finite"


def _logits(table: pd.DataFrame, run: str, split: str) -> np.ndarray:
    rows = table[(table["run"] == run) & (table["split"] == split)]
    return rows.filter(like="logit_").dropna(axis=1).to_numpy()
