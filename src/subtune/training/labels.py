"""Standardised labels, on which a regression starts well, and the weights of label words.

The head of a regression predicts 0 at first. Training sees labels minus their mean, divided by
their standard deviation. What leaves training is in the labels' own unit.
"""

import copy
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError
from subtune.selections.specs import Fit, Labels, Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.delta import ChangedTensor, Delta


class Unit(NamedTuple):
    """The mean and standard deviation that training takes out of labels; none of raw labels."""

    mean: float = 0.0
    deviation: float = 1.0


def in_training(examples: Examples, rows: np.ndarray, labels: Labels) -> tuple[Examples, Unit]:
    """Return examples with the labels on which a run trains, and the unit of their own labels.

    Args:
        examples: of the training split.
        rows: numbers of the examples that train, whose mean and deviation count.
        labels: of the run's recipe.

    Raises:
        SubtuneError: the labels of these rows are all equal.
    """
    if labels == "raw":
        return examples, Unit()
    every = np.asarray(examples.labels, np.float64)
    trained = every[rows]
    unit = Unit(float(trained.mean()), float(trained.std()))
    if not unit.deviation:
        raise SubtuneError(
            f"labels: found {unit.mean:g} in all {len(rows)} rows that train, expected different "
            "labels, whose deviation is their unit"
        )
    standardised = copy.copy(examples)
    standardised.labels = ((every - unit.mean) / unit.deviation).astype(np.float32)
    return standardised, unit


def weights_of(
    task: TaskSpec,
    examples: Examples,
    rows: np.ndarray,
    recipe: Recipe | Fit,
    device: torch.device | None = None,
) -> Tensor | None:
    """Return the weight of each label word in the loss, ``[o]`` in float64; None without any.

    Args:
        examples: of the training split.
        rows: numbers of the examples that train, whose labels count.

    Raises:
        SubtuneError: none of these rows has one of the labels, or all have it.
    """
    if recipe.class_weights is None:
        return None
    try:
        weights = task.of_kind.balanced(task, examples.labels_at(rows))
    except SubtuneError as error:
        raise SubtuneError(f"class_weights: {error}") from None
    return torch.from_numpy(weights).to(device)


def in_own_unit(delta: Delta, parameters: Mapping[str, Tensor], unit: Unit) -> Delta:
    """Return a delta whose last layer predicts labels in their own unit.

    Args:
        delta: the classifier is part of every delta, and trains whole.
        parameters: of the model, in its order, the classifier's last.

    Raises:
        SubtuneError: the classifier has no bias, to which the mean is added.
    """
    if unit == Unit():
        return delta
    *_, weight, bias = parameters
    if not bias.endswith(".bias"):
        raise SubtuneError("labels: found 'standard' for a classifier without bias, expected 'raw'")
    scaled = {
        name: unit.deviation * delta[name].applied_to(parameters[name]) for name in (weight, bias)
    }
    scaled[bias] = scaled[bias] + unit.mean
    return delta | {name: ChangedTensor(values) for name, values in scaled.items()}
