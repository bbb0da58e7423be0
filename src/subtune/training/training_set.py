"""The rows and labels on which a run trains.

A regression trains on standardised labels, because its head predicts 0 at first. All other code has
labels in their original unit.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, locate_errors
from subtune.runs.spec import Fit, Labels, Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.values import Delta


class Unit(NamedTuple):
    """The mean and standard deviation by which labels are standardised; 0 and 1 for raw labels."""

    mean: float = 0.0
    deviation: float = 1.0


@dataclass(frozen=True)
class TrainingSet:
    """The examples on which a run trains.

    Attributes:
        examples: the training split, with the labels on which the run trains.
        index: the indices of the examples that train.
        unit: the unit of the labels.
        label_weights: each label word's weight in the loss, ``[outputs]``; None without weights.
    """

    examples: Examples
    index: np.ndarray
    unit: Unit
    label_weights: Tensor | None


def training_set(
    train: Examples,
    task: TaskSpec,
    recipe: Recipe,
    generator: np.random.Generator,
    device: torch.device,
) -> TrainingSet:
    """Return the examples on which a run trains, drawn by the generator of its seed.

    Raises:
        SubtuneError: the labels cannot be standardised or weighted.
    """
    index = training_examples(train, recipe, generator)
    examples, unit = to_training_labels(train, index, recipe.labels)
    weights = label_weights(task, examples, index, recipe, device)
    return TrainingSet(examples, index, unit, weights)


def training_examples(
    train: Examples, recipe: Recipe | Fit, generator: np.random.Generator
) -> np.ndarray:
    """Return the indices of a run's training examples, drawn by the generator of its seed.

    If a row has several examples, either all of them train or none.
    """
    return train.indices_of_rows(generator.permutation(len(train.row_numbers))[: recipe.train_rows])


def to_training_labels(
    examples: Examples, index: np.ndarray, labels: Labels
) -> tuple[Examples, Unit]:
    """Return examples with the labels on which a run trains, and the unit of these labels.

    Args:
        examples: the training split.
        index: the examples that train, over which mean and deviation are computed.
        labels: raw or standardised labels.

    Raises:
        SubtuneError: all labels to standardise are equal.
    """
    if labels == "raw":
        return examples, Unit()
    every = np.asarray(examples.labels, np.float64)
    trained = every[index]
    unit = Unit(float(trained.mean()), float(trained.std()))
    if not unit.deviation:
        raise SubtuneError(
            f"labels: found {unit.mean:g} in all {len(index)} training rows, expected different "
            "labels to standardise"
        )
    standardised = copy.copy(examples)
    standardised.labels = ((every - unit.mean) / unit.deviation).astype(np.float32)
    return standardised, unit


def to_original_unit(delta: Delta, names: Iterable[str], unit: Unit) -> Delta:
    """Return a delta whose last layer predicts labels in their original unit.

    The last layer, last of the parameters' ``names``, is part of every delta, and all of it trains.
    """
    if unit == Unit() or not delta:
        return delta
    *_, weight, bias = names
    scaled = {name: unit.deviation * delta[name] for name in (weight, bias)}
    return delta | scaled | {bias: scaled[bias] + unit.mean}


def label_weights(
    task: TaskSpec,
    examples: Examples,
    index: np.ndarray,
    recipe: Recipe | Fit,
    device: torch.device | None = None,
) -> Tensor | None:
    """Return each label word's weight in the loss, or None without weights.

    Args:
        index: the training examples from which the weights are computed.

    Returns:
        ``[outputs]`` in float64.

    Raises:
        SubtuneError: a label is in none or all of these examples.
    """
    if recipe.class_weights is None:
        return None
    with locate_errors("class_weights"):
        weights = task.of_kind.balanced_weights(task, examples.labels_at(index))
    return torch.from_numpy(weights).to(device)
