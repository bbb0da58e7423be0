"""Where methods fail, by predictions of rows on which they did not train.

Each run predicts the rows that score it: dev or test rows, or its fold of the training rows. If a
row has several predictions, of several seeds, counts and probabilities are means over them.

Label errors are found as in confident learning (Northcutt, Jiang and Chuang, "Confident Learning:
Estimating Uncertainty in Dataset Labels", 2021): a label is suspect if the probability of another
label is at least its mean among the rows that have that other label.

Shapes: ``u`` predictions, ``n`` rows, ``o`` labels.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis.answer import find_answers
from subtune.analysis.candidates import judged_runs
from subtune.analysis.run_scores import read_judged_predictions
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs import records
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.tasks.task import TEST

# The standard normal quantile of a 95 % interval.
QUANTILE = 1.959964
# The most rows of a table of suspects.
MOST_SUSPECTS = 1000
SECOND_TEXT = "second text"


class Predicted(NamedTuple):
    """The predictions of one method on the rows of one task that score it.

    Attributes:
        task: the task.
        title: the method's title.
        is_named: whether the answer names the method; the other method is full fine-tuning.
        split: the split of the rows.
        row: the number of each prediction's row in the split, from 0 ``[u]``.
        label: each row's label: a number, or 0 and 1 for each label ``[u]`` or ``[u, o]``.
        output: probabilities of labels, or numbers ``[u, o]``.
    """

    task: TaskSpec
    title: str
    is_named: bool
    split: str
    row: np.ndarray
    label: np.ndarray
    output: np.ndarray

    @property
    def weight(self) -> np.ndarray:
        """The weight of each prediction ``[u]``: one for each row together."""
        return 1 / np.bincount(self.row)[self.row]

    @property
    def label_sets(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether each label is given, and whether it is predicted, as 0 and 1 ``[u, o]``."""
        if self.label.ndim > 1:
            return self.label, (self.output > 0.5).astype(int)
        every = np.eye(self.output.shape[1], dtype=int)
        return every[self.label], every[self.output.argmax(1)]

    def mean_over_seeds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows' numbers ``[n]``, their labels, and the mean outputs ``[n, o]``."""
        rows, first, place = np.unique(self.row, return_index=True, return_inverse=True)
        sums = np.zeros((len(rows), self.output.shape[1]))
        np.add.at(sums, place, self.output * self.weight[:, None])
        return rows, self.label[first], sums


def read_predicted(chosen: pd.DataFrame, row_scores: pd.DataFrame, store: Path) -> list[Predicted]:
    """Return the predictions of the method that each answer names, and of full fine-tuning.

    Only tasks of texts are included. If the answer is full fine-tuning, it is the only method.

    Args:
        chosen: the runs of an experiment.
        row_scores: from `subtune.analysis.run_scores.row_scores`.
        store: the directory of run records.
    """
    judged, found = judged_runs(chosen).dropna(subset=["value"]), []
    for answer in find_answers(chosen, row_scores):
        named = answer.full
        if answer.candidate and answer.decision != "everything":
            named = answer.candidate.title
        of_task = judged[(judged["task"] == answer.task) & (judged["metric"] == answer.metric)]
        of_task = of_task[of_task["models"] == answer.models]
        for title in dict.fromkeys(filter(None, [named, answer.full])):
            runs = of_task[of_task["title"] == title]
            if runs.empty:
                # The answer for all tasks has no rows of its own.
                continue
            task = records.read_spec(store, runs["run"].iloc[0]).tokens.data.task
            if task.of_kind.head == SEQUENCE_CLASSIFICATION:
                found.append(_read_method(task, runs, store, title == named))
    return found


def _read_method(task: TaskSpec, runs: pd.DataFrame, store: Path, is_named: bool) -> Predicted:
    """Return the predictions of a method's runs on one task."""
    split = TEST if TEST in task.evaluation else task.evaluation[0]
    parts = (read_judged_predictions(store, row, split)[1] for row in runs.to_dict("records"))
    table = pd.concat(parts, ignore_index=True)
    label, output = np.array(table["label"].tolist()), table.filter(like="logit_").to_numpy(float)
    if label.ndim > 1:
        output = 1 / (1 + np.exp(-output))
    elif task.labels:
        output = np.exp(output - output.max(1, keepdims=True))
        output /= output.sum(1, keepdims=True)
    if split != TEST and runs["fold"].notna().all():
        split = "train"
    title = str(runs["title"].iloc[0])
    return Predicted(task, title, is_named, split, table["idx"].to_numpy(), label, output)


def count_by_class(predicted: Predicted) -> pd.DataFrame:
    """Return precision, recall and F1 of each label, with 95 % intervals.

    Intervals are Wilson's (1927) for shares of rows. F1 is 2·J/(1 + J), where J is the share of the
    rows with the label or its prediction that have both; its interval is that of J.

    Returns:
        ``task``, ``method``, ``label``, ``support`` (rows with the label), ``predicted`` (rows with
        its prediction), and for each of ``precision``, ``recall`` and ``f1`` the value and the ends
        of its interval, ``…_low`` and ``…_high``.
    """
    given, found = predicted.label_sets
    weight = predicted.weight
    both, support, count = (weight @ every for every in (given * found, given, found))
    columns: dict[str, object] = {
        "task": predicted.task.name,
        "method": predicted.title,
        "label": [*(predicted.task.labels or ())],
        "support": support.round().astype(int),
        "predicted": count.round(1),
    }
    totals = {"precision": count, "recall": support, "f1": support + count - both}
    for name, total in totals.items():
        ends = [wilson_interval(k, n) for k, n in zip(both, total, strict=True)]
        for ending, values in zip(("", "_low", "_high"), np.array(ends).T, strict=True):
            columns[name + ending] = 2 * values / (1 + values) if name == "f1" else values
    return pd.DataFrame(columns)


def wilson_interval(successes: float, total: float) -> tuple[float, float, float]:
    """Return a share and the ends of its 95 % interval; NaN if ``total`` is 0."""
    if not total:
        return math.nan, math.nan, math.nan
    share, square = successes / total, QUANTILE**2 / total
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return share, max(0.0, centre - half), min(1.0, centre + half)


def count_confusions(predicted: Predicted) -> pd.DataFrame:
    """Return the number of rows of each label with each prediction.

    Returns:
        ``task``, ``method``, ``label``, ``prediction``, ``rows``; in the order of the labels.
    """
    labels, outputs = predicted.task.labels or (), predicted.output.shape[1]
    counts = np.zeros((outputs, outputs))
    np.add.at(counts, (predicted.label, predicted.output.argmax(1)), predicted.weight)
    names = np.array(labels, dtype=object)
    about = {"task": predicted.task.name, "method": predicted.title}
    return pd.DataFrame(
        about
        | {"label": names.repeat(outputs), "prediction": np.tile(names, outputs)}
        | {"rows": counts.ravel()}
    )


def list_numbers(predicted: Predicted) -> pd.DataFrame:
    """Return ``task``, ``method``, ``label`` and ``prediction`` of each row of a regression."""
    _, label, output = predicted.mean_over_seeds()
    about = {"task": predicted.task.name, "method": predicted.title}
    return pd.DataFrame(about | {"label": label, "prediction": output[:, 0]})


def find_suspects(predicted: Predicted, texts: Mapping[str, list]) -> pd.DataFrame:
    """Return the rows that most disagree with their label, the most suspect first.

    These are labels that confident learning holds to be wrong, in the order of their probability;
    for numbers, all rows in the order of their residuals. In a multi-label task each label of a row
    counts by itself.

    Args:
        predicted: the predictions of a method.
        texts: the columns of the rows' split.

    Returns:
        ``task``, ``row`` (from 1, among the rows with a label), ``label``, ``prediction``,
        ``probability`` (of the label as it is given; for numbers instead ``residual``), ``text``,
        and `SECOND_TEXT` for pairs. There are at most `MOST_SUSPECTS` rows.
    """
    rows, label, output = predicted.mean_over_seeds()
    names = np.array(predicted.task.labels or (), dtype=object)
    if predicted.task.labels is None:
        table = pd.DataFrame({"row": rows + 1, "label": label, "prediction": output[:, 0]})
        table["residual"] = table["prediction"] - table["label"]
        table = table.sort_values("residual", key=np.abs, ascending=False, kind="stable")
    elif label.ndim == 1:
        table = _suspect_labels(rows, label, output, names)
    else:
        both = np.stack([1 - output, output], axis=2)
        words = np.array([("not " + names), names])
        table = pd.concat(
            _suspect_labels(rows, label[:, number], both[:, number], words[:, number])
            for number in range(len(names))
        ).sort_values("probability", kind="stable")
    table = table.head(MOST_SUSPECTS).reset_index(drop=True)
    table.insert(0, "task", predicted.task.name)
    for column, title in zip(TEXT_COLUMNS, ("text", SECOND_TEXT), strict=True):
        if column in texts:
            table[title] = [texts[column][row - 1] for row in table["row"]]
    return table


def _suspect_labels(
    rows: np.ndarray, label: np.ndarray, output: np.ndarray, names: np.ndarray
) -> pd.DataFrame:
    """Return the suspect labels of rows with one label each."""
    suspects, probability = rank_labels(label, output)
    table = {"row": rows + 1, "label": names[label], "prediction": names[output.argmax(1)]}
    return pd.DataFrame(table | {"probability": probability}).iloc[suspects]


def rank_labels(label: np.ndarray, output: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the suspect rows, the most suspect first, and each label's probability ``[n]``.

    Args:
        label: the number of each row's label ``[n]``.
        output: the probabilities of labels ``[n, o]``.
    """
    own = output[np.arange(len(label)), label]
    # The mean probability of each label among its rows; a label without rows is never suspected.
    usual = np.full(output.shape[1], np.inf)
    for number in np.unique(label):
        usual[number] = own[label == number].mean()
    best = np.where(output >= usual, output, -1).argmax(1)
    is_suspect = (output >= usual).any(1) & (best != label) & (output.argmax(1) != label)
    order = own.argsort(kind="stable")
    return order[is_suspect[order]], own
