"""Write zip files of predictions for the GLUE server, and read the scores that it returns.

Users upload the zip files, and write the returned scores into a CSV file.
"""

import math
import zipfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import best_of_seeds
from subtune.config.schema import Config, Experiment
from subtune.core.errors import SubtuneError, locate_errors
from subtune.data.table_files import delimited_rows, require_closed_quotes
from subtune.exhibits.output import EMPTY, Table, format_number, format_rate
from subtune.methods.baselines import Baseline
from subtune.tasks import DIAGNOSTIC, TASKS
from subtune.tasks.task import list_score_columns

HEADER = ("index", "prediction")
# Tasks with label names in the server's files. The labels of all other tasks are numbers.
IN_WORDS = ("mnli", "qnli", "rte")
# The lowest and the highest label of STS-B, which is GLUE's only regression task.
SIMILARITIES = (0.0, 5.0)
# A fixed timestamp, so that equal predictions give identical zip files.
NO_TIME = (1980, 1, 1, 0, 0, 0)
# The columns of the table that describes how each file was made.
CONTENTS = ["file", "made of", "learning rate", "seed", "dev score"]
# The columns that identify a score from the server, and all columns of the file with such scores.
SCORE_KEYS = ("experiment", "model", "method", "task")
GIVEN = (*SCORE_KEYS, "value", "scale")


class SubmissionFile(NamedTuple):
    """One file of a zip, with one line per test example of the published split, numbered from 0."""

    task: str
    split: str
    rows: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the server's files, in the order of their ids; none for a regression."""
        labels = TASKS[self.task].labels or ()
        return labels if self.task in IN_WORDS else tuple(map(str, range(len(labels))))

    @property
    def constant(self) -> str:
        """The prediction that is written for every example if no run predicts the split."""
        return self.labels[0] if self.labels else f"{SIMILARITIES[0]:.3f}"


# Maps the names of the files in a zip to the files.
SUBMISSION_FILES = {
    "CoLA.tsv": SubmissionFile("cola", "test", 1063),
    "SST-2.tsv": SubmissionFile("sst2", "test", 1821),
    "MRPC.tsv": SubmissionFile("mrpc", "test", 1725),
    "STS-B.tsv": SubmissionFile("stsb", "test", 1379),
    "MNLI-m.tsv": SubmissionFile("mnli", "test_matched", 9796),
    "MNLI-mm.tsv": SubmissionFile("mnli", "test_mismatched", 9847),
    "QNLI.tsv": SubmissionFile("qnli", "test", 5463),
    "RTE.tsv": SubmissionFile("rte", "test", 3000),
    "WNLI.tsv": SubmissionFile("wnli", "test", 146),
    "QQP.tsv": SubmissionFile("qqp", "test", 390965),
    "AX.tsv": SubmissionFile("mnli", DIAGNOSTIC, 1104),
}


def list_submissions(config: Config, experiment: Experiment) -> dict[str, tuple[str, str]]:
    """Map the name of each zip of an experiment to its model and method.

    There are no zips for experiments without the GLUE datasets or for methods that fit a
    regression. If there are several models, each model has a separate directory.
    """
    if not any(map(config.is_submitted, experiment.tasks)):
        return {}
    several = len(experiment.models) > 1
    return {
        f"{model}/{method}" if several else method: (model, method)
        for model in experiment.models
        for method in experiment.methods_for(model)
        if not isinstance(config.selection(method, model), Baseline)
    }


def expected_server_scores(config: Config) -> set[tuple[str, ...]]:
    """List all scores that the server can return for a configuration, as tuples of `SCORE_KEYS`."""
    tasks = config.all_tasks()
    return {
        (name, *model_and_method, column.key)
        for name, experiment in config.experiments.items()
        for model_and_method in list_submissions(config, experiment).values()
        for task in filter(config.is_submitted, experiment.tasks)
        for column in list_score_columns([tasks[task]], {})
    }


def format_predictions(file: SubmissionFile, logits: np.ndarray) -> list[str]:
    """Convert logits ``[examples, outputs]`` to predictions in the format of the server's files."""
    if file.labels:
        return [file.labels[number] for number in logits.argmax(axis=1)]
    return [f"{value:.3f}" for value in np.clip(logits[:, 0], *SIMILARITIES)]


def write_zip(path: Path, predictions: Mapping[str, list[str]]) -> None:
    """Write a zip with all files that are required by the server.

    ``predictions`` maps file names to predictions, one per example. A file without predictions is
    filled with `SubmissionFile.constant`.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in SUBMISSION_FILES.items():
            rows = predictions.get(name) or [file.constant] * file.rows
            lines = ["\t".join(HEADER), *(f"{number}\t{row}" for number, row in enumerate(rows))]
            text = "\n".join(lines) + "\n"
            archive.writestr(zipfile.ZipInfo(name, NO_TIME), text, zipfile.ZIP_DEFLATED)


def make_submission(
    predicted: pd.DataFrame, best: pd.DataFrame
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """Collect one method's predictions for all files of a zip.

    Args:
        predicted: logits for the test splits of all tasks, from
            `subtune.training.recorded_runs.predict_test_rows`.
        best: one row per task with the method's run: ``task``, ``run``, ``learning_rate``,
            ``seed``, and ``value``, which is NaN if the run diverged.

    Returns:
        A mapping from file names to predictions, and a table with the columns `CONTENTS`. It states
        for each file which run made the predictions, or why all predictions are equal.
    """
    runs = best.set_index("task")
    predictions, rows = {}, []
    for name, file in SUBMISSION_FILES.items():
        logits, made_of = _find_logits(file, predicted, runs)
        facts = [EMPTY] * 3
        if logits is None:
            made_of = f"every prediction is {file.constant}: {made_of}"
        else:
            predictions[name] = format_predictions(file, logits)
            run = runs.loc[file.task]
            facts = [
                format_rate(run["learning_rate"]),
                str(run["seed"]),
                format_number(run["value"]),
            ]
        rows.append((name, made_of, *facts))
    return predictions, pd.DataFrame(rows, columns=CONTENTS)


SUBMISSION = Table(
    "contents",
    "Files for the GLUE server",
    "For each file in a zip archive for the GLUE server, the table names the run that predicted "
    "the labels, or says why all predictions in the file are equal. Predictions are from the "
    "epoch with the best score in the task's first metric.",
    make=lambda results: results["submission"],
)


def _find_logits(
    file: SubmissionFile, predicted: pd.DataFrame, runs: pd.DataFrame
) -> tuple[np.ndarray | None, str]:
    """Find a file's logits and the run that predicted them, or the reason why they are missing."""
    if file.task not in runs.index:
        return None, "the task was not run"
    run, score = runs.loc[file.task, ["run", "value"]]
    if pd.isna(score):
        return None, f"run {run} diverged"
    table = predicted[(predicted["run"] == run) & (predicted["split"] == file.split)]
    logits = table.filter(like="logit_").dropna(axis=1).to_numpy()
    if len(logits) != file.rows:
        found = f"found {len(logits):,} test examples"
        return None, f"{found}, but the GLUE server expects {file.rows:,}"
    if not np.isfinite(logits).all():
        return None, f"a prediction of run {run} is not finite"
    return logits, f"run {run}"


def read_test_scores(path: Path, known: Collection[tuple[str, ...]] | None = None) -> pd.DataFrame:
    """Read a user's CSV file with the scores that the server returned.

    The file has the columns `GIVEN`, in the format of a paper's ``printed/scores.csv``. Additional
    columns are ignored. ``value`` is divided by ``scale``. Names are checked if ``known`` is given,
    from `expected_server_scores`.

    Raises:
        SubtuneError: the file cannot be read or has mistakes. The message has one line per mistake.
    """
    rows, problems = [], []
    with locate_errors("test_scores"):
        for place, cells in require_closed_quotes(delimited_rows(path), path, lambda cells: True):
            if lacking := [column for column in GIVEN if column not in cells]:
                raise SubtuneError(f"{path}: no column {lacking[0]!r}, expected {', '.join(GIVEN)}")
            *names, value, scale = (cells[column].strip() for column in GIVEN)
            score = math.nan
            with suppress(ValueError, ZeroDivisionError):
                score = float(value) / float(scale)
            if not -1 <= score <= 1:
                found = f"found value {value!r} and scale {scale!r}"
                problems.append(f"{path}: {place}: {found}, expected numbers with |value| ≤ scale")
            elif known is not None and tuple(names) not in known:
                described = ", ".join(map(" ".join, zip(SCORE_KEYS, names, strict=True)))
                found = f"there is no submission for {described}"
                problems.append(f"{path}: {place}: {found}; correct the names or remove the line")
            rows.append([*names, score])
        if problems:
            raise SubtuneError("\ntest_scores: ".join(problems))
    return pd.DataFrame(rows, columns=[*SCORE_KEYS, "value"]).astype({"value": float})


def replace_dev_scores(chosen: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Replace dev scores by test scores from `read_test_scores`, in runs that have a test score."""
    best = best_of_seeds(chosen).dropna(subset=["value"])
    sent = chosen[chosen["run"].isin(best["run"])].drop(columns="value")
    returned = scores.drop(columns="experiment").rename(columns={"task": "column"})
    return sent.merge(returned, on=["model", "method", "column"], how="inner")
