"""Matrices that train, of ``k`` runs side by side.

Each run has a *leaf* with its trained values in the model's dtype, which the optimiser steps. The
forward pass reads the matrices of all runs, ``[k, …]``, in the dtype of products.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from subtune.models.operations import PerRun, SparseEntries, TableRows, Weight
from subtune.selections.kind import Entry, Indices


@dataclass(frozen=True)
class ChangedTensor:
    """The ``values`` of a completely trained tensor."""

    values: Tensor

    def applied_to(self, tensor: Tensor) -> Tensor:
        return self.values.to(tensor.device)


@dataclass(frozen=True)
class ChangedEntries:
    """Trained ``values`` ``[e]`` at ``index`` ``[e]`` of a flattened tensor."""

    values: Tensor
    index: Tensor

    def applied_to(self, tensor: Tensor) -> Tensor:
        index, values = self.index.to(tensor.device), self.values.to(tensor.device)
        return tensor.flatten().index_copy(0, index, values).view(tensor.shape)


class Matrix(ABC):
    """One matrix of all runs: each run's leaf, and the weight of the forward pass.

    ``read`` ``[k, …]`` is what the forward pass reads. A hook may move its gradient to ``taken``,
    one for each run.
    """

    def __init__(self, leaves: Sequence[Tensor], read: Tensor, weight: Weight):
        self.leaves, self.weight = leaves, weight
        self._read, self._taken = read, list[Tensor]()

    def gradient(self, run: int) -> Tensor | None:
        """Return the gradient of a run's leaf, or None if no loss depends on it."""
        every = self._taken or self._read.grad
        return None if every is None else every[run]

    def clear(self) -> None:
        """Forget the gradients."""
        self._read.grad = None
        self._taken.clear()

    @abstractmethod
    def write(self) -> None:
        """Write the leaves into the matrices that the forward pass reads."""

    @abstractmethod
    def change(self, run: int, leaf: Tensor) -> ChangedTensor | ChangedEntries:
        """Return the change to the pretrained matrix by these values of a run's leaf."""

    @abstractmethod
    def kept(self, runs: Sequence[int]) -> "Matrix":
        """Return the matrices of these runs only."""


def matrix_of(
    pretrained: Tensor, entries: Sequence[Entry], dtype: torch.dtype, rows: Tensor | None
) -> Matrix:
    """Return a pretrained matrix of all runs.

    Args:
        entries: the part of the matrix that each run trains; all parts are of one kind.
        dtype: the dtype of products.
        rows: the rows that may change, if the matrix is a table of embeddings; None: all.
    """
    indices = [
        torch.from_numpy(entry.flat).to(pretrained.device)
        for entry in entries
        if isinstance(entry, Indices)
    ]
    if not indices:
        start = pretrained if rows is None else pretrained[rows]
        return WholeMatrix(pretrained, start.expand(len(entries), *start.shape), dtype, rows)
    leaves = [pretrained.flatten()[index] for index in indices]
    if len(leaves) == 1 and pretrained.device.type == "cpu":
        [leaf], [index] = leaves, indices
        return SparseMatrix(pretrained, leaf, index, dtype)
    return MaskedMatrix(pretrained, leaves, indices, dtype)


class WholeMatrix(Matrix):
    """A matrix that trains completely, or a table of which only some ``rows`` are read.

    ``values`` are ``[k, …]``.
    """

    def __init__(self, pretrained: Tensor, values: Tensor, dtype: torch.dtype, rows: Tensor | None):
        self._pretrained, self._rows = pretrained, rows
        self._values = values.clone(memory_format=torch.contiguous_format)
        self._is_cast = dtype != values.dtype and rows is None
        read = self._values.to(dtype) if self._is_cast else self._values
        read.requires_grad_()
        leaves = [self._values.detach()[run] for run in range(len(values))]
        super().__init__(leaves, read, PerRun(read) if rows is None else TableRows(read, rows))
        if self._is_cast:
            read.register_post_accumulate_grad_hook(_cast_to(self._values.detach(), self._taken))

    def write(self) -> None:
        if self._is_cast:
            self._read.copy_(self._values)

    def change(self, run: int, leaf: Tensor) -> ChangedTensor:
        if self._rows is not None:
            leaf = self._pretrained.index_copy(0, self._rows, leaf)
        return ChangedTensor(leaf)

    def kept(self, runs: Sequence[int]) -> "WholeMatrix":
        values = self._values.detach()[list(runs)]
        return WholeMatrix(self._pretrained, values, self._read.dtype, self._rows)


def _cast_to(values: Tensor, taken: list[Tensor]) -> Callable[[Tensor], None]:
    """Return a hook that moves gradients to ``taken``, in the dtype of ``values``."""
    # New memory at every step would take long.
    gradients = torch.empty_like(values)

    def take(read: Tensor) -> None:
        assert read.grad is not None
        if taken:
            gradients.add_(read.grad)
        else:
            taken.extend(gradients.copy_(read.grad))
        read.grad = None

    return take


class MaskedMatrix(Matrix):
    """A matrix of which each run trains some entries.

    Its gradient is computed completely, because a GPU does this faster than it picks the entries of
    many products.
    """

    def __init__(
        self,
        pretrained: Tensor,
        leaves: Sequence[Tensor],
        indices: Sequence[Tensor],
        dtype: torch.dtype,
    ):
        self._pretrained, self._indices = pretrained, indices
        read = pretrained.to(dtype).repeat(len(leaves), *[1] * pretrained.ndim)
        super().__init__(leaves, read, PerRun(read))
        self.write()
        read.requires_grad_()
        read.register_post_accumulate_grad_hook(_picked(indices, leaves[0].dtype, self._taken))

    def write(self) -> None:
        for matrix, leaf, index in zip(self._read, self.leaves, self._indices, strict=True):
            matrix.view(-1).index_copy_(0, index, leaf.to(matrix.dtype))

    def change(self, run: int, leaf: Tensor) -> ChangedEntries:
        return ChangedEntries(leaf, self._indices[run])

    def kept(self, runs: Sequence[int]) -> "MaskedMatrix":
        leaves, indices = ([of[run] for run in runs] for of in (self.leaves, self._indices))
        return MaskedMatrix(self._pretrained, leaves, indices, self._read.dtype)


def _picked(
    indices: Sequence[Tensor], dtype: torch.dtype, taken: list[Tensor]
) -> Callable[[Tensor], None]:
    """Return a hook that moves the gradients of each run's entries to ``taken``, in a dtype."""

    def take(read: Tensor) -> None:
        assert read.grad is not None
        pairs = zip(read.grad, indices, strict=True)
        own = [gradient.flatten()[index].to(dtype) for gradient, index in pairs]
        taken[:] = [a + b for a, b in zip(taken, own, strict=True)] if taken else own
        read.grad = None

    return take


class SparseMatrix(Matrix):
    """A matrix of which a single run trains some entries, without a gradient of the others."""

    def __init__(self, pretrained: Tensor, leaf: Tensor, index: Tensor, dtype: torch.dtype):
        self._index, self._matrix = index, pretrained.to(dtype, copy=True)
        self._places = index // pretrained.shape[1], index % pretrained.shape[1]
        leaf.requires_grad_()
        super().__init__([leaf], leaf, SparseEntries(self._matrix, leaf, *self._places))

    def gradient(self, run: int) -> Tensor | None:
        return self._read.grad

    def write(self) -> None:
        self._matrix[self._places] = self.leaves[0].to(self._matrix.dtype)

    def change(self, run: int, leaf: Tensor) -> ChangedEntries:
        return ChangedEntries(leaf, self._index)

    def kept(self, runs: Sequence[int]) -> "SparseMatrix":
        return self
