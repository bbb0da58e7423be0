"""The interface of trained weights: what `FlatTensors` and matrices have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from torch import Tensor

from subtune.models.operations import Weight
from subtune.training.deltas import Delta


class TrainedWeights(ABC):
    """Weights of a model that runs side by side train, each run with its own values.

    ``leaves``: for each run, a tensor with the run's trained values, which its optimiser steps.
    """

    leaves: Sequence[Tensor]

    def gradient(self, run: int) -> Tensor | None:
        """Return the gradient of a run's leaf, or None if no loss depends on it."""
        return self.leaves[run].grad

    def clear(self) -> None:
        """Forget all gradients."""
        for leaf in self.leaves:
            leaf.grad = None

    @abstractmethod
    def write(self) -> None:
        """Write the leaves' values to where the forward pass reads them."""

    @abstractmethod
    def weights(self, runs: Sequence[int]) -> dict[str, Weight]:
        """Return these runs' weights for the forward pass, by tensor name."""

    @abstractmethod
    def changes(self, run: int, leaf: Tensor) -> Delta:
        """Return a run's changes to the pretrained tensors, from a copy of its leaf."""

    @abstractmethod
    def kept(self, runs: Sequence[int]) -> Self:
        """Return the weights of these runs only."""
