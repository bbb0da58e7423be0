"""The trained values of runs side by side.

The tensor, and what of it trains, decide which class holds its values::

    what trains                          class          the leaf of one run
    vectors, classifier, added modules,
      low-rank updates                   FlatTensors    all these values, in one vector
    a whole matrix                       WholeMatrix    the matrix
    a whole table of embeddings,
      without weight decay               WholeMatrix    the rows of the words in texts
    entries of a matrix                  MaskedMatrix   the entries
    entries of a matrix, by a single
      run on a CPU                       SparseMatrix   the entries

Words of this file:

* *leaf*: the tensor with one run's trained values, which the run's optimiser steps.
* *stacked*: the forward pass reads trained tensors as ``[k, …]``, with the values of ``k`` runs.
* *shared*: all runs read the same tensor; so are all frozen weights.
* *entry*: what of a tensor a run trains: all of it, some of its values, or a low-rank update.
* *delta*: the tensors that one run changed, by name.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from subtune.methods.roles import is_added, is_classifier
from subtune.methods.selection import Entries, Entry, Indices, LowRank, Whole
from subtune.models.encoder import Encoder
from subtune.models.operations import LowRankUpdate, PerRun, SparseEntries, TableRows, Weight
from subtune.training.deltas import (
    LORA_A,
    LORA_B,
    AddedUpdate,
    ChangedEntries,
    ChangedTensor,
    Delta,
)


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


class FlatTensors(TrainedWeights):
    """Vectors, the classifier, added modules and low-rank updates of ``k`` runs.

    Each run has a *flat vector* ``[p]``, in which its small tensors lie one after another. The
    vectors of all runs have the same layout and the same initial values. Each run trains some of
    the positions: its leaf has the values there, and all other positions keep their initial values.
    So runs that train different tensors still stack to ``[k, p]``.

    As in LoRA's code (Hu et al., 2022), an update's ``A`` is drawn like a linear layer's weights,
    and its ``B`` is 0.

    Args:
        model: the model with the runs' initial values.
        members: each run's entries, without those of matrices.
        seed: the seed of low-rank updates.
    """

    def __init__(self, model: Encoder, members: Sequence[Entries], seed: int):
        self._members = members
        trained = {name: entry for entries in members for name, entry in entries.items()}
        self._entries = {name: trained[name] for name in model.parameters if name in trained}
        generator = torch.Generator().manual_seed(seed)
        start: dict[str, Tensor] = {}
        for name, entry in self._entries.items():
            tensor = model.parameters[name]
            if isinstance(entry, LowRank):
                outputs, inputs = tensor.shape
                lora_a = torch.empty(entry.rank, inputs)
                nn.init.kaiming_uniform_(lora_a, a=math.sqrt(5), generator=generator)
                start[name + LORA_A] = lora_a.to(tensor)
                start[name + LORA_B] = tensor.new_zeros(outputs, entry.rank)
            else:
                start[name] = tensor
        self._shapes = {key: values.shape for key, values in start.items()}
        self._start = torch.cat([values.flatten() for values in start.values()])
        self._positions = [self._positions_of(entries).to(model.device) for entries in members]
        self.leaves = [nn.Parameter(self._start[index].clone()) for index in self._positions]

    def write(self) -> None:
        """Do nothing: `weights` reads the leaves."""

    def weights(self, runs: Sequence[int]) -> dict[str, Weight]:
        pieces = self._pieces(torch.stack([self._vector(run, self.leaves[run]) for run in runs]))
        weights: dict[str, Weight] = {}
        for name, entry in self._entries.items():
            if isinstance(entry, LowRank):
                lora_b = entry.scale * pieces[name + LORA_B]
                weights[name] = LowRankUpdate(pieces[name + LORA_A], lora_b)
            else:
                weights[name] = PerRun(pieces[name])
        return weights

    def changes(self, run: int, leaf: Tensor) -> Delta:
        pieces = self._pieces(self._vector(run, leaf))
        delta: Delta = {}
        for name, entry in self._members[run].items():
            match entry:
                case Whole():
                    delta[name] = ChangedTensor(pieces[name].clone())
                case Indices(flat):
                    index = torch.from_numpy(flat).to(leaf.device)
                    delta[name] = ChangedEntries(pieces[name].flatten()[index], index)
                case LowRank(_, scale):
                    lora_a, lora_b = pieces[name + LORA_A].clone(), pieces[name + LORA_B].clone()
                    delta[name] = AddedUpdate(lora_a, lora_b, scale)
        return delta

    def kept(self, runs: Sequence[int]) -> Self:
        kept = copy.copy(self)
        kept._members = [self._members[run] for run in runs]
        kept._positions = [self._positions[run] for run in runs]
        kept.leaves = [self.leaves[run] for run in runs]
        return kept

    def _vector(self, run: int, leaf: Tensor) -> Tensor:
        """Return a run's flat vector ``[p]``, with the values of a leaf ``[e]``."""
        return self._start.index_copy(0, self._positions[run], leaf)

    def _pieces(self, vectors: Tensor) -> dict[str, Tensor]:
        """Return the tensors ``[…, *shape]`` in flat vectors ``[…, p]``, by their keys in files."""
        pieces = vectors.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            key: values.view(*vectors.shape[:-1], *shape)
            for (key, shape), values in zip(self._shapes.items(), pieces, strict=True)
        }

    def _positions_of(self, entries: Entries) -> Tensor:
        """Return the ``[e]`` positions of the flat vector that a run trains, in ascending order."""
        places = self._pieces(torch.arange(len(self._start)))
        positions = []
        for name in self._entries:
            match entries.get(name):
                case Whole():
                    positions.append(places[name].flatten())
                case Indices(flat):
                    positions.append(places[name].flatten()[torch.from_numpy(flat)])
                case LowRank():
                    positions += [places[name + LORA_A].flatten(), places[name + LORA_B].flatten()]
        return torch.cat(positions)


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


class TrainedValues:
    """The trained values of runs side by side: flat tensors, then one part for each matrix.

    All runs start at the model's values. They may train different small tensors, but train the same
    matrices.

    Args:
        model: the model with the runs' initial values.
        members: each run's entries.
        seed: the seed of low-rank updates.
        frozen: the model of the forward pass. A matrix has its dtype in products.
        rows: by the name of a table of embeddings, the only rows that may change; default: all.
    """

    def __init__(
        self,
        model: Encoder,
        members: Sequence[Entries],
        seed: int,
        frozen: Encoder | None = None,
        rows: Mapping[str, Tensor] | None = None,
    ):
        forward, rows = (frozen or model).parameters, rows or {}
        names = [name for name, entry in members[0].items() if is_matrix(model, name, entry)]
        # A gradient's norm is summed in this order: first the matrices that train whole.
        names.sort(key=lambda name: isinstance(members[0][name], Indices))
        small = [
            {name: entry for name, entry in entries.items() if name not in names}
            for entries in members
        ]
        self._parts: list[TrainedWeights] = [FlatTensors(model, small, seed)]
        for name in names:
            pretrained, entries = model.parameters[name], [member[name] for member in members]
            matrix = matrix_of(name, pretrained, entries, forward[name].dtype, rows.get(name))
            self._parts.append(matrix)

    def leaves(self, run: int) -> list[Tensor]:
        """Return the tensors that a run's optimiser steps: one for each part."""
        return [part.leaves[run] for part in self._parts]

    def gradients(self, run: int) -> list[Tensor | None]:
        """Return the gradient of each leaf, or None if no loss depends on it."""
        return [part.gradient(run) for part in self._parts]

    def clear(self) -> None:
        """Forget all gradients."""
        for part in self._parts:
            part.clear()

    @torch.no_grad()
    def write(self) -> None:
        """Write the leaves' values to where the forward pass reads them."""
        for part in self._parts:
            part.write()

    def weights(self, runs: Sequence[int] | None = None) -> dict[str, Weight]:
        """Return the weights of these runs for the forward pass; default: of all runs."""
        chosen = range(len(self._parts[0].leaves)) if runs is None else runs
        return {name: w for part in self._parts for name, w in part.weights(chosen).items()}

    def delta(self, run: int, leaves: Sequence[Tensor]) -> Delta:
        """Return what a run changed, from copies of its leaves."""
        delta: Delta = {}
        for part, leaf in zip(self._parts, leaves, strict=True):
            delta |= part.changes(run, leaf)
        return delta

    def keep(self, runs: Sequence[int]) -> None:
        """Keep only these runs, with the same values."""
        self._parts = [part.kept(runs) for part in self._parts]
