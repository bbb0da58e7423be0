"""The trained values of runs side by side.

What of a tensor trains (its *entry*) decides where the values are, what the forward pass reads, and
how they are stored::

    entry                      class        leaf of one run      weight in the pass  keys in a file
    Whole: a vector, the       FlatTensors  a part of one flat   PerRun              NAME
      classifier, added module               vector
    Whole: a matrix            WholeMatrix  the matrix           PerRun              NAME
    Whole: a table, without    WholeMatrix  the rows of words    TableRows           NAME
      weight decay                           in texts
    Indices of a vector        FlatTensors  a part of one flat   PerRun              NAME,
                                             vector                                  NAME.index
    Indices of a matrix        MaskedMatrix the entries          PerRun              NAME,
                                                                                     NAME.index
    LowRank                    FlatTensors  parts of one flat    LowRankUpdate       NAME.lora_A,
                                             vector                                  NAME.lora_B,
                                                                                     NAME.lora_scale

Words of this file:

* *leaf*: a tensor with trained values of one run, which the run's optimiser steps.
* *delta*: the tensors that one run changed, by name: each one's entry and values.
* *stacked*: the forward pass reads trained tensors as ``[k, …]``, with the values of ``k`` runs.
* *shared*: all runs read the same tensor; so are all frozen weights.

Shapes: ``k`` runs, ``p`` numbers in a flat vector, ``e`` trained entries.
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
from subtune.models.operations import LowRankUpdate, PerRun, TableRows, Weight
from subtune.training.deltas import LORA_A, LORA_B, Change, Delta


class TrainedValues:
    """The trained values of runs side by side: flat tensors, then one part for each matrix.

    All runs start at the model's values. They may train different small tensors, but train the same
    matrices. A run is named by its position.

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
        self.device = model.device
        forward, rows = (frozen or model).parameters, rows or {}
        names = [name for name, entry in members[0].items() if is_matrix(model, name, entry)]
        # A gradient's norm is summed in this order: first the matrices that train whole.
        names.sort(key=lambda name: isinstance(members[0][name], Indices))
        small = [
            {name: entry for name, entry in entries.items() if name not in names}
            for entries in members
        ]
        self._parts: list[FlatTensors | StackedMatrix] = [FlatTensors(model, small, seed)]
        for name in names:
            pretrained, dtype = model.parameters[name], forward[name].dtype
            indices = [entry for entries in members if isinstance(entry := entries[name], Indices)]
            if indices:
                self._parts.append(MaskedMatrix(name, pretrained, indices, dtype))
            else:
                start = pretrained if name not in rows else pretrained[rows[name]]
                masters = start.expand(len(members), *start.shape)
                self._parts.append(WholeMatrix(name, pretrained, masters, dtype, rows.get(name)))

    def leaves(self, position: int) -> list[Tensor]:
        """Return the tensors that a run's optimiser steps: one for each part."""
        return [part.leaves[position] for part in self._parts]

    def gradients(self, position: int) -> list[Tensor | None]:
        """Return the gradient of each leaf, or None if no loss depends on it."""
        return [part.gradient(position) for part in self._parts]

    def clear(self) -> None:
        """Forget all gradients."""
        for part in self._parts:
            part.clear()

    @torch.no_grad()
    def write(self) -> None:
        """Write the leaves' values to where the forward pass reads them."""
        for part in self._parts:
            part.write()

    def weights(self, positions: Sequence[int] | None = None) -> dict[str, Weight]:
        """Return the weights of these runs for the forward pass; default: of all runs."""
        chosen = range(len(self._parts[0].leaves)) if positions is None else positions
        return {name: w for part in self._parts for name, w in part.weights(chosen).items()}

    @torch.no_grad()
    def delta(self, position: int) -> Delta:
        """Return what a run has changed until now, as copies."""
        return {name: of for part in self._parts for name, of in part.delta(position).items()}

    def only(self, positions: Sequence[int]) -> Self:
        """Return the values of these runs only."""
        kept = copy.copy(self)
        kept._parts = [part.only(positions) for part in self._parts]
        return kept


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Return whether a tensor trains as a matrix, not in `FlatTensors`."""
    is_small = model.parameters[name].ndim == 1 or is_classifier(name) or is_added(name)
    return not is_small and not isinstance(entry, LowRank)


class FlatTensors:
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
        self._trained = [self._trained_places(entries).to(model.device) for entries in members]
        self.leaves = [nn.Parameter(self._start[places].clone()) for places in self._trained]

    def gradient(self, position: int) -> Tensor | None:
        return self.leaves[position].grad

    def clear(self) -> None:
        for leaf in self.leaves:
            leaf.grad = None

    def write(self) -> None:
        """Do nothing: `weights` reads the leaves."""

    def weights(self, positions: Sequence[int]) -> dict[str, Weight]:
        pieces = self._pieces(torch.stack([self._vector(position) for position in positions]))
        weights: dict[str, Weight] = {}
        for name, entry in self._entries.items():
            if isinstance(entry, LowRank):
                lora_b = entry.scale * pieces[name + LORA_B]
                weights[name] = LowRankUpdate(pieces[name + LORA_A], lora_b)
            else:
                weights[name] = PerRun(pieces[name])
        return weights

    def delta(self, position: int) -> Delta:
        pieces = self._pieces(self._vector(position))
        delta: Delta = {}
        for name, entry in self._members[position].items():
            match entry:
                case Whole():
                    values: tuple[Tensor, ...] = (pieces[name].clone(),)
                case Indices(flat):
                    index = torch.from_numpy(flat).to(self._start.device)
                    values = (pieces[name].flatten()[index],)
                case LowRank():
                    values = (pieces[name + LORA_A].clone(), pieces[name + LORA_B].clone())
            delta[name] = Change(entry, values)
        return delta

    def only(self, positions: Sequence[int]) -> Self:
        kept = copy.copy(self)
        kept._members = [self._members[position] for position in positions]
        kept._trained = [self._trained[position] for position in positions]
        kept.leaves = [self.leaves[position] for position in positions]
        return kept

    def _vector(self, position: int) -> Tensor:
        """Return a run's flat vector ``[p]``."""
        return self._start.index_copy(0, self._trained[position], self.leaves[position])

    def _pieces(self, vectors: Tensor) -> dict[str, Tensor]:
        """Return the tensors ``[…, *shape]`` in flat vectors ``[…, p]``, by their keys in files."""
        pieces = vectors.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            key: values.view(*vectors.shape[:-1], *shape)
            for (key, shape), values in zip(self._shapes.items(), pieces, strict=True)
        }

    def _trained_places(self, entries: Entries) -> Tensor:
        """Return the ``[e]`` places in the flat vector that a run trains, in ascending order."""
        every = self._pieces(torch.arange(len(self._start)))
        places = []
        for name in self._entries:
            match entries.get(name):
                case Whole():
                    places.append(every[name].flatten())
                case Indices(flat):
                    places.append(every[name].flatten()[torch.from_numpy(flat)])
                case LowRank():
                    places += [every[name + LORA_A].flatten(), every[name + LORA_B].flatten()]
        return torch.cat(places)


class StackedMatrix(ABC):
    """A matrix of the encoder that ``k`` runs train, each run with its own values.

    A run's leaf has its trained values in the model's dtype (the *master weights* of mixed
    precision). The forward pass reads a *working copy* of the matrix, in the dtype of products. The
    working copies of all runs are one tensor ``[k, …]``, which gets a gradient.

    Args:
        pretrained: the matrix before training.
        rows: the only rows of a table of embeddings that the working copies have; None: all.
    """

    def __init__(
        self,
        name: str,
        pretrained: Tensor,
        leaves: Sequence[Tensor],
        working: Tensor,
        rows: Tensor | None = None,
    ):
        self._name, self._pretrained, self.leaves = name, pretrained, leaves
        self._working, self._rows = working.requires_grad_(), rows

    def gradient(self, position: int) -> Tensor | None:
        every = self._working.grad
        return None if every is None else self._leaf_gradient(position, every[position])

    @abstractmethod
    def _leaf_gradient(self, position: int, gradient: Tensor) -> Tensor:
        """Return a leaf's gradient from that of its working copy.

        The gradient is valid until the next call, for any run.
        """

    def clear(self) -> None:
        self._working.grad = None

    @abstractmethod
    def write(self) -> None:
        """Write the leaves' values to the working copies."""

    def weights(self, positions: Sequence[int]) -> dict[str, Weight]:
        working, rows = self._working, self._rows
        if len(positions) < len(working):
            working = working[list(positions)]
        return {self._name: PerRun(working) if rows is None else TableRows(working, rows)}

    @abstractmethod
    def delta(self, position: int) -> Delta:
        """Return what a run has changed, as copies."""

    @abstractmethod
    def only(self, positions: Sequence[int]) -> Self:
        """Return the matrices of these runs only."""


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
        self._masters = masters.clone(memory_format=torch.contiguous_format)
        leaves = [self._masters[position] for position in range(len(masters))]
        super().__init__(name, pretrained, leaves, self._masters.detach().to(dtype), rows)
        # New memory at every step would take a CPU long.
        self._cast = masters.new_empty(masters.shape[1:]) if dtype != masters.dtype else None

    def _leaf_gradient(self, position: int, gradient: Tensor) -> Tensor:
        return gradient if self._cast is None else self._cast.copy_(gradient)

    def write(self) -> None:
        if self._cast is not None:
            self._working.copy_(self._masters)

    def delta(self, position: int) -> Delta:
        leaf, rows = self.leaves[position], self._rows
        values = leaf.clone() if rows is None else self._pretrained.index_copy(0, rows, leaf)
        return {self._name: Change(Whole(), (values,))}

    def only(self, positions: Sequence[int]) -> Self:
        masters, dtype = self._masters[list(positions)], self._working.dtype
        return type(self)(self._name, self._pretrained, masters, dtype, self._rows)


class MaskedMatrix(StackedMatrix):
    """A matrix of which each run trains some entries; its leaf has these entries ``[e]``.

    The gradient of the whole matrix is computed, and then its trained entries are read.
    """

    def __init__(
        self,
        name: str,
        pretrained: Tensor,
        entries: Sequence[Indices],
        dtype: torch.dtype,
        leaves: Sequence[Tensor] | None = None,
    ):
        self._entries = entries
        self._indices = [torch.from_numpy(entry.flat).to(pretrained.device) for entry in entries]
        start = pretrained.flatten()
        working = pretrained.to(dtype).repeat(len(entries), *[1] * pretrained.ndim)
        leaves = leaves or [start[index] for index in self._indices]
        super().__init__(name, pretrained, leaves, working)
        with torch.no_grad():
            self.write()

    def _leaf_gradient(self, position: int, gradient: Tensor) -> Tensor:
        leaf, index = self.leaves[position], self._indices[position]
        return gradient.flatten()[index].to(leaf.dtype)

    def write(self) -> None:
        for matrix, leaf, index in zip(self._working, self.leaves, self._indices, strict=True):
            matrix.view(-1).index_copy_(0, index, leaf.to(matrix.dtype))

    def delta(self, position: int) -> Delta:
        return {self._name: Change(self._entries[position], (self.leaves[position].clone(),))}

    def only(self, positions: Sequence[int]) -> Self:
        entries = [self._entries[position] for position in positions]
        leaves = [self.leaves[position] for position in positions]
        return type(self)(self._name, self._pretrained, entries, self._working.dtype, leaves)
