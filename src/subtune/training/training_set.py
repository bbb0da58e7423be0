"""The examples and labels on which a run is trained.

The labels of a regression task can be standardised for training, because a new head predicts values
near 0. Outside training, labels and predictions are in their original unit.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, locate_errors
from subtune.runs.spec import FitRecipe, Labels, Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.values import Delta


class Unit(NamedTuple):
    """The mean and standard deviation that standardise labels: 0 and 1 for labels that stay raw."""

    mean: float = 0.0
    standard_deviation: float = 1.0


@dataclass(frozen=True)
class TrainingSet:
    """The examples on which a run is trained.

    Attributes:
        index: the indices of the drawn examples.
        unit: the mean and standard deviation of the labels before they were standardised.
        label_weights: the weight of each class in the loss, ``[outputs]``; None if all are equal.
    """

    examples: Examples
    index: np.ndarray
    unit: Unit
    label_weights: Tensor | None


def draw_training_set(
    train: Examples,
    task: TaskSpec,
    recipe: Recipe,
    generator: np.random.Generator,
    device: torch.device,
) -> TrainingSet:
    """Draw the training examples of a run, and prepare their labels and label weights."""
    index = draw_training_indices(train, recipe.train_rows, generator)
    examples, unit = to_training_labels(train, index, recipe.labels)
    weights = compute_label_weights(task, examples, index, recipe, device)
    return TrainingSet(examples, index, unit, weights)


def draw_training_indices(
    train: Examples, rows: int | None, generator: np.random.Generator
) -> np.ndarray:
    """Draw ``rows`` rows, None meaning all, and return the indices of all their examples."""
    return train.indices_of_rows(generator.permutation(len(train.row_indices))[:rows])


def to_training_labels(
    examples: Examples, index: np.ndarray, labels: Labels
) -> tuple[Examples, Unit]:
    """Standardise the labels of a training split, if ``labels`` is ``standard``.

    The mean and standard deviation of the labels at ``index`` are used, and returned. A
    `SubtuneError` is raised if all these labels have the same value.
    """
    if labels == "raw":
        return examples, Unit()
    all_labels = np.asarray(examples.labels, np.float64)
    drawn = all_labels[index]
    unit = Unit(float(drawn.mean()), float(drawn.std()))
    if not unit.standard_deviation:
        raise SubtuneError(
            f"labels: all {len(index)} training examples have the label {unit.mean:g}, expected at "
            "least two different labels to standardise"
        )
    standardised = copy.copy(examples)
    standardised.labels = ((all_labels - unit.mean) / unit.standard_deviation).astype(np.float32)
    return standardised, unit


def restore_label_unit(delta: Delta, names: Iterable[str], unit: Unit) -> Delta:
    """Rescale the last layer of a delta, so that it predicts labels in their original unit.

    Every delta contains the last layer. ``names`` are the names of all parameters, in which the
    last layer's weight and bias come last.
    """
    if unit == Unit() or not delta:
        return delta
    *_, weight, bias = names
    scaled = {name: unit.standard_deviation * delta[name] for name in (weight, bias)}
    return delta | scaled | {bias: scaled[bias] + unit.mean}


def compute_label_weights(
    task: TaskSpec,
    examples: Examples,
    index: np.ndarray,
    recipe: Recipe | FitRecipe,
    device: torch.device | None = None,
) -> Tensor | None:
    """Compute each class's weight in the loss, ``[outputs]`` in float64, or None if all are equal.

    The labels at ``index`` are counted. A `SubtuneError` is raised if a label occurs in none of
    these examples or in all.
    """
    if recipe.class_weights is None:
        return None
    with locate_errors("class_weights"):
        weights = task.of_kind.balanced_weights(task, examples.select_labels(index))
    return torch.from_numpy(weights).to(device)
