"""Matrices of the encoder that train, whole or in part, of runs side by side.

A run's leaf has its trained values in the model's dtype (the *master weights* of mixed precision).
The forward pass reads a *working copy* of the matrix, in the dtype of products.

Shapes: ``k`` runs, ``e`` trained entries.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from subtune.methods.roles import is_added, is_classifier
from subtune.methods.selection import Entry, Indices, LowRank
from subtune.models.encoder import Encoder
from subtune.models.operations import PerRun, SparseEntries, TableRows, Weight
from subtune.training.deltas import ChangedEntries, ChangedTensor, Delta
from subtune.training.trained_weights import TrainedWeights


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Return whether a tensor trains as a matrix, not in `FlatTensors`."""
    is_small = model.parameters[name].ndim == 1 or is_classifier(name) or is_added(name)
    return not is_small and not isinstance(entry, LowRank)


def matrix_of(
    name: str,
    pretrained: Tensor,
    entries: Sequence[Entry],
    dtype: torch.dtype,
    rows: Tensor | None,
) -> TrainedWeights:
    """Return a pretrained matrix that all runs train.

    Args:
        name: the matrix's canonical name.
        entries: each run's entry; all of them are `Whole`, or all are `Indices`.
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
        values = start.expand(len(entries), *start.shape)
        return WholeMatrix(name, pretrained, values, dtype, rows)
    leaves = [pretrained.flatten()[index] for index in indices]
    if len(leaves) == 1 and pretrained.device.type == "cpu":
        return SparseMatrix(name, pretrained, leaves[0], indices[0], dtype)
    return MaskedMatrix(name, pretrained, leaves, indices, dtype)


class StackedMatrix(TrainedWeights):
    """A matrix whose working copies of all runs are one tensor ``[k, …]``, which gets a gradient.

    Args:
        rows: the only rows of a table of embeddings that the working copies have; None: all.
    """

    def __init__(
        self, name: str, leaves: Sequence[Tensor], working: Tensor, rows: Tensor | None = None
    ):
        self.name, self.leaves = name, leaves
        self._working, self._rows = working.requires_grad_(), rows

    def gradient(self, run: int) -> Tensor | None:
        every = self._working.grad
        return None if every is None else self._of_leaf(run, every[run])

    @abstractmethod
    def _of_leaf(self, run: int, gradient: Tensor) -> Tensor:
        """Return a leaf's gradient from that of its working copy.

        The gradient is valid until the next call, for any run.
        """

    def clear(self) -> None:
        self._working.grad = None

    def weights(self, runs: Sequence[int]) -> dict[str, Weight]:
        working = self._working
        if len(runs) < len(working):
            working = working[list(runs)]
        return {
            self.name: PerRun(working) if self._rows is None else TableRows(working, self._rows)
        }


class WholeMatrix(StackedMatrix):
    """A matrix that trains whole, or a table of embeddings of which some ``rows`` train.

    A run's leaf is its slice of the master weights. If the dtypes are equal, the working copies
    share the master weights' memory.

    Args:
        masters: the initial master weights ``[k, …]``.
        rows: the only rows of the table that texts read; None: the whole matrix trains.
    """

    def __init__(
        self,
        name: str,
        pretrained: Tensor,
        masters: Tensor,
        dtype: torch.dtype,
        rows: Tensor | None,
    ):
        self._pretrained = pretrained
        self._masters = masters.clone(memory_format=torch.contiguous_format)
        leaves = [self._masters[run] for run in range(len(masters))]
        super().__init__(name, leaves, self._masters.detach().to(dtype), rows)
        # New memory at every step would take a CPU long.
        self._cast = torch.empty_like(leaves[0]) if dtype != masters.dtype else None

    def _of_leaf(self, run: int, gradient: Tensor) -> Tensor:
        return gradient if self._cast is None else self._cast.copy_(gradient)

    def write(self) -> None:
        if self._cast is not None:
            self._working.copy_(self._masters)

    def changes(self, run: int, leaf: Tensor) -> Delta:
        if self._rows is not None:
            leaf = self._pretrained.index_copy(0, self._rows, leaf)
        return {self.name: ChangedTensor(leaf)}

    def kept(self, runs: Sequence[int]) -> Self:
        masters, dtype = self._masters[list(runs)], self._working.dtype
        return type(self)(self.name, self._pretrained, masters, dtype, self._rows)


class MaskedMatrix(StackedMatrix):
    """A matrix of which each run trains some entries; its leaf has these entries ``[e]``.

    The gradient of the whole matrix is computed, and then its trained entries are read. On a GPU,
    this is faster than computing the gradient of the trained entries only.
    """

    def __init__(
        self,
        name: str,
        pretrained: Tensor,
        leaves: Sequence[Tensor],
        indices: Sequence[Tensor],
        dtype: torch.dtype,
    ):
        self._pretrained, self._indices = pretrained, indices
        working = pretrained.to(dtype).repeat(len(leaves), *[1] * pretrained.ndim)
        super().__init__(name, leaves, working)
        with torch.no_grad():
            self.write()

    def _of_leaf(self, run: int, gradient: Tensor) -> Tensor:
        return gradient.flatten()[self._indices[run]].to(self.leaves[run].dtype)

    def write(self) -> None:
        for matrix, leaf, index in zip(self._working, self.leaves, self._indices, strict=True):
            matrix.view(-1).index_copy_(0, index, leaf.to(matrix.dtype))

    def changes(self, run: int, leaf: Tensor) -> Delta:
        return {self.name: ChangedEntries(leaf, self._indices[run])}

    def kept(self, runs: Sequence[int]) -> Self:
        leaves, indices = ([every[run] for run in runs] for every in (self.leaves, self._indices))
        return type(self)(self.name, self._pretrained, leaves, indices, self._working.dtype)


class SparseMatrix(TrainedWeights):
    """A matrix of which a single run on a CPU trains some entries ``[e]``.

    Only these entries have a gradient.
    """

    def __init__(
        self, name: str, pretrained: Tensor, leaf: Tensor, index: Tensor, dtype: torch.dtype
    ):
        self.name, self.leaves, self._index = name, [leaf.requires_grad_()], index
        self._matrix = pretrained.to(dtype, copy=True)
        self._places = index // pretrained.shape[1], index % pretrained.shape[1]

    def write(self) -> None:
        self._matrix[self._places] = self.leaves[0].to(self._matrix.dtype)

    def weights(self, runs: Sequence[int]) -> dict[str, Weight]:
        return {self.name: SparseEntries(self._matrix, self.leaves[0], *self._places)}

    def changes(self, run: int, leaf: Tensor) -> Delta:
        return {self.name: ChangedEntries(leaf, self._index)}

    def kept(self, runs: Sequence[int]) -> Self:
        return self
