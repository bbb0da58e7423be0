"""Find where methods fail, and estimate how much more labels would help.

Failures are found in predictions for examples on which a method was not trained: dev or test
examples, or the run's fold of the training set. If there are predictions for an example from
several seeds, counts and probabilities are means over seeds.

Label errors are found as in confident learning (Northcutt, Jiang and Chuang, "Confident Learning:
Estimating Uncertainty in Dataset Labels", 2021). Each label has a threshold: its mean predicted
probability over the examples that are given this label. The given label of an example is suspect if
at least one label reaches its threshold, and the given label is neither the most probable label nor
the most probable of the labels that reach their thresholds.

A method's error is assumed to fall as a power of the number of training examples (Hestness et al.,
"Deep Learning Scaling is Predictable, Empirically", 2017). Therefore each doubling of the training
set raises the score by `RATIO` times the gain of the previous doubling. The gain is estimated by a
least-squares fit to the scores at all training-set sizes. It is a weighted sum of scores, so its
interval is computed as for a difference of two scores (`subtune.analysis.intervals`).

Shapes: ``u`` predictions, ``n`` examples, ``o`` labels.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.answer import ALL_TASKS, find_answers
from subtune.analysis.candidates import are_scored_on_folds, select_scored_runs
from subtune.analysis.judged_epochs import judged_split, read_scored_predictions
from subtune.analysis.run_scores import require_same_rows
from subtune.core.errors import join_names, locate_errors
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs import records
from subtune.tasks import TaskSpec
from subtune.tasks.examples import PLACE
from subtune.tasks.sentences import TEXT_COLUMNS

# The quantile of the standard normal distribution for a 95 % interval.
QUANTILE = 1.959964
# The largest number of rows in a table of suspects.
MOST_SUSPECTS = 1000
SECOND_TEXT = "second text"
# The gain from doubling the training set, as a share of the gain from the previous doubling.
RATIO = 0.8
# A sentence reports the gain only if half the width of its interval is at most this.
LARGEST_HALF_WIDTH = 0.05


class MethodPredictions(NamedTuple):
    """The predictions of one method on one task, for the examples on which it is scored.

    Attributes:
        is_named: whether the answer names this method. Full fine-tuning is read even if not named.
        row: the index of each prediction's example in the split ``[u]``.
        label: the label of each prediction's example ``[u]``; for multi-label tasks, 0 or 1 for
            each label ``[u, o]``.
        output: the predicted probability of each label ``[u, o]``; for regression, the prediction.
    """

    task: TaskSpec
    title: str
    is_named: bool
    split: str
    row: np.ndarray
    label: np.ndarray
    output: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """The weights of predictions ``[u]``. The weights for one example sum to 1."""
        return 1 / np.bincount(self.row)[self.row]

    def mean_over_seeds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the examples' ids ``[n]``, labels ``[n]`` or ``[n, o]``, and means ``[n, o]``."""
        rows, first, place = np.unique(self.row, return_index=True, return_inverse=True)
        sums = np.zeros((len(rows), self.output.shape[1]))
        np.add.at(sums, place, self.output * self.weights[:, None])
        return rows, self.label[first], sums


def read_method_predictions(
    chosen: pd.DataFrame, row_scores: pd.DataFrame, store: Path
) -> list[MethodPredictions]:
    """Read the predictions of the methods that answers name, and of full fine-tuning.

    Only classification and regression of whole texts are included.
    """
    found = []
    for answer in find_answers(chosen, row_scores):
        if answer.task == ALL_TASKS:
            continue
        named = answer.compared.full
        if answer.candidate and not str(answer.decision).endswith("everything"):
            named = answer.candidate.title
        scored = answer.runs.dropna(subset=["value"])
        for title in dict.fromkeys(filter(None, [named, answer.compared.full])):
            runs = scored[scored["title"] == title]
            task = records.read_spec(store, runs["run"].iloc[0]).tokens.data.task
            if task.of_kind.head == SEQUENCE_CLASSIFICATION:
                found.append(_read_method(task, runs, store, title == named))
    return found


def _read_method(
    task: TaskSpec, runs: pd.DataFrame, store: Path, is_named: bool
) -> MethodPredictions:
    """Read the predictions of a method's runs on one task, and turn logits into probabilities."""
    parts = (read_scored_predictions(store, row)[1] for row in runs.to_dict("records"))
    table = pd.concat(parts, ignore_index=True)
    label, logits = np.array(table["label"].tolist()), table.filter(like="logit_").to_numpy(float)
    output = compute_probabilities(task, logits)
    split = "train" if are_scored_on_folds(runs) else judged_split(task)
    title = str(runs["title"].iloc[0])
    return MethodPredictions(task, title, is_named, split, table["idx"].to_numpy(), label, output)


def compute_probabilities(task: TaskSpec, logits: np.ndarray) -> np.ndarray:
    """Convert logits ``[u, o]`` to probabilities. The outputs of a regression stay as they are."""
    from scipy.special import softmax

    if task.of_kind.problem_type == "multi_label_classification":
        return 1 / (1 + np.exp(-logits))
    return softmax(logits, axis=1) if task.labels else logits


def score_by_class(predicted: MethodPredictions) -> pd.DataFrame:
    """Compute precision, recall and F1 of each label, with 95 % intervals.

    The intervals of precision and recall are Wilson's (1927). F1 is ``2 * J / (1 + J)``, where
    ``J`` is the label's Jaccard index, so Wilson's interval of ``J`` is transformed in the same
    way. ``support`` is the number of examples with the label, and ``predicted``
    the number for which it is predicted.
    """
    # 0/1 arrays ``[u, o]`` of the given labels and of the predicted labels.
    given, found = predicted.label, (predicted.output > 0.5).astype(int)
    if given.ndim == 1:
        every = np.eye(predicted.output.shape[1], dtype=int)
        given, found = every[given], every[predicted.output.argmax(1)]
    weights = predicted.weights
    both, support, count = (weights @ every for every in (given * found, given, found))
    columns: dict[str, object] = {
        "task": predicted.task.name,
        "method": predicted.title,
        "label": [*(predicted.task.labels or ())],
        "support": support.round().astype(int),
        "predicted": count.round(1),
    }
    totals = {"precision": count, "recall": support, "f1": support + count - both}
    for name, total in totals.items():
        for ending, values in zip(("", "_low", "_high"), wilson_interval(both, total), strict=True):
            columns[name + ending] = 2 * values / (1 + values) if name == "f1" else values
    return pd.DataFrame(columns)


def wilson_interval(successes: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return ``successes / total`` and the ends of its 95 % interval, or NaN if ``total`` is 0."""
    total = np.where(total, total, np.nan)
    share, square = successes / total, QUANTILE**2 / total
    centre = (share + square / 2) / (1 + square)
    half = np.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return share, np.maximum(0, centre - half), np.minimum(1, centre + half)


def count_confusions(predicted: MethodPredictions) -> pd.DataFrame:
    """Count the ``rows`` of each pair of ``label`` and ``prediction``."""
    labels, outputs = predicted.task.labels or (), predicted.output.shape[1]
    counts = np.zeros((outputs, outputs))
    np.add.at(counts, (predicted.label, predicted.output.argmax(1)), predicted.weights)
    names = np.array(labels, dtype=object)
    about = {"task": predicted.task.name, "method": predicted.title}
    pairs = {"label": names.repeat(outputs), "prediction": np.tile(names, outputs)}
    return pd.DataFrame(about | pairs | {"rows": counts.ravel()})


def list_regression_predictions(predicted: MethodPredictions) -> pd.DataFrame:
    """List the ``label`` and the mean ``prediction`` of each example in a regression task."""
    _, label, output = predicted.mean_over_seeds()
    about = {"task": predicted.task.name, "method": predicted.title}
    return pd.DataFrame(about | {"label": label, "prediction": output[:, 0]})


def find_suspects(predicted: MethodPredictions, texts: Mapping[str, list]) -> pd.DataFrame:
    """Find the examples whose labels may be wrong, at most `MOST_SUSPECTS`.

    In classification, the examples with suspect labels are sorted by the ``probability`` of the
    given label, the lowest first. In a multi-label task, each label of an example is tested
    separately. In regression, all examples are returned, the largest absolute ``residual`` first.
    ``texts`` maps each column of the split to the values of all examples. ``row`` is the line of
    the example in a text file, or its number in another table, from 1.
    """
    rows, label, output = predicted.mean_over_seeds()
    names = np.array(predicted.task.labels or (), dtype=object)
    if predicted.task.labels is None:
        table = pd.DataFrame({"row": rows + 1, "label": label, "prediction": output[:, 0]})
        table["residual"] = table["prediction"] - table["label"]
        table = table.sort_values("residual", key=np.abs, ascending=False, kind="stable")
    elif label.ndim == 1:
        table = _list_suspects(rows, label, output, names)
    else:
        both = np.stack([1 - output, output], axis=2)
        words = np.array([("not " + names), names])
        table = pd.concat(
            _list_suspects(rows, label[:, number], both[:, number], words[:, number])
            for number in range(len(names))
        ).sort_values("probability", kind="stable")
    table = table.head(MOST_SUSPECTS).reset_index(drop=True)
    table.insert(0, "task", predicted.task.name)
    for column, title in zip(TEXT_COLUMNS, ("text", SECOND_TEXT), strict=True):
        if column in texts:
            table[title] = [texts[column][row - 1] for row in table["row"]]
    if PLACE in texts:
        places = (texts[PLACE][row - 1] for row in table["row"])
        table["row"] = [int(place.rpartition(" ")[2]) for place in places]
    return table


def _list_suspects(
    rows: np.ndarray, label: np.ndarray, output: np.ndarray, names: np.ndarray
) -> pd.DataFrame:
    """List the examples with suspect labels, the least probable given label first.

    ``label`` ``[n]`` are indices of ``names``, and ``output`` ``[n, o]`` probabilities.
    """
    own = output[np.arange(len(label)), label]
    # The mean probability of each label over the examples labelled with it. A label without
    # examples is never proposed as the correct one.
    thresholds = np.full(output.shape[1], np.inf)
    for number in np.unique(label):
        thresholds[number] = own[label == number].mean()
    predicted, best = output.argmax(1), np.where(output >= thresholds, output, -1).argmax(1)
    is_suspect = (output >= thresholds).any(1) & (best != label) & (predicted != label)
    table = {"row": rows + 1, "label": names[label], "prediction": names[predicted]}
    table = pd.DataFrame(table | {"probability": own})
    return table[is_suspect].sort_values("probability", kind="stable")


def estimate_gains(best: pd.DataFrame, row_scores: pd.DataFrame) -> pd.DataFrame:
    """Estimate how much each method's score would rise with twice as many training examples.

    ``best`` are the runs on all training set sizes, and ``row_scores`` their pseudo-values. Methods
    without runs on several sizes, including the largest, are left out. ``score`` is the mean over
    the seeds and folds that have runs on all sizes; ``gain``, ``low`` and ``high`` are NaN except
    for the largest size.
    """
    found = list[pd.DataFrame]()
    judged = select_scored_runs(best, row_scores).dropna(subset=["value"])
    judged = judged[judged["scope"].isna() & (judged["rows"] > 0)]
    largest = judged.groupby("task")["train_rows"].max()
    for (task, title), runs in judged.groupby(["task", "title"], sort=False):
        every = runs.assign(fold=runs["fold"].fillna(-1))
        every = every.drop_duplicates(["seed", "fold", "train_rows"])
        cells = ["value", "run", "rows", "rows_hash", "parts"]
        table = every.pivot(index=["seed", "fold"], columns="train_rows", values=cells).dropna()
        numbers = [*table["value"].columns]
        if len(numbers) < 2 or table.empty or numbers[-1] < largest[task]:
            continue
        of_size = [table.xs(n, axis="columns", level=1).to_dict("records") for n in numbers]
        with locate_errors(f"{title} with {join_names(map(str, numbers))} training examples"):
            for compared in zip(*of_size, strict=True):
                for run in compared:
                    require_same_rows(run, compared[-1])
        weights = compute_gain_weights(numbers)
        gains = table["value"].to_numpy(float) @ weights
        values = np.tensordot(weights, [[run["parts"] for run in same] for same in of_size], 1)
        folds = table.index.get_level_values("fold").nunique() if are_scored_on_folds(runs) else 0
        counts = [run["rows"] for run in of_size[-1]]
        study = intervals.estimate_study_of_runs(gains.tolist(), values, counts, folds)
        gain = intervals.mean_interval([study])
        scores = table["value"].astype(float).mean()
        about = {"task": task, "method": title, "train_rows": numbers, "score": scores.to_numpy()}
        last = np.arange(len(numbers)) == len(numbers) - 1
        ends = {"gain": gain.mean, "low": gain.low, "high": gain.high}
        found.append(pd.DataFrame(about | {n: np.where(last, v, np.nan) for n, v in ends.items()}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def compute_gain_weights(numbers: Sequence[int]) -> np.ndarray:
    """Compute a weight for each size, ascending, so that the weighted sum of scores is the gain."""
    doublings = np.log2(np.array(numbers, float) / numbers[-1])
    error = RATIO**doublings
    centred = error.mean() - error
    return (1 - RATIO) * centred / (centred @ centred)
