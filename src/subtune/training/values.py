"""The trained values of runs side by side.

What of a tensor trains (its *entry*) decides where the values are, what the forward pass reads, and
how they are stored::

    entry                    class          leaf of a run         weight in the pass  keys in a file
    Whole: a vector, the     FlatTensors    a part of one flat    PerRun              NAME
      classifier, a module                    vector
    Whole: a matrix          StackedMatrix  the matrix            PerRun              NAME
    Whole: a table, without  StackedMatrix  the rows of words in  PerRun              NAME
      weight decay                            texts
    Indices of a vector      FlatTensors    a part of one flat    PerRun              NAME,
                                              vector                                    NAME.index
    Indices of a matrix      StackedMatrix  the entries           PerRun              NAME,
                                                                                        NAME.index
    LowRank                  FlatTensors    parts of one flat     LowRankUpdate       NAME.lora_A,
                                              vector                                    NAME.lora_B,
                                                                                        NAME.lora_scale

Words of this file:

* *leaf*: a tensor with trained values of one run, which the run's optimiser steps.
* *delta*: the tensors that one run changed, by their keys in a file.
* *stacked*: the forward pass reads trained tensors as ``[k, …]``, with the values of ``k`` runs.
* *shared*: all runs read the same tensor; so are all frozen weights.

Shapes: ``k`` runs, ``p`` numbers in a flat vector, ``e`` trained entries.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from subtune.methods.roles import is_added, is_classifier
from subtune.methods.selection import Entries, Entry, Indices, LowRank, Whole
from subtune.models.encoder import Encoder
from subtune.models.operations import LowRankUpdate, PerRun, Weight

# The tensors that a run changed, by the keys in the table above.
Delta = dict[str, Tensor]
INDEX, LORA_A, LORA_B, LORA_SCALE = ".index", ".lora_A", ".lora_B", ".lora_scale"


def changed_tensors(parameters: Mapping[str, Tensor], delta: Delta) -> dict[str, Tensor]:
    """Return the tensors that a delta changes, with their new values, by name.

    Whole tensors are shared with the delta. A low-rank update is ``scale · B A`` (LoRA, Eq. 3).
    """
    changed = {}
    for key, values in delta.items():
        name = key.removesuffix(LORA_A)
        if name != key:
            update = delta[name + LORA_B] @ values
            changed[name] = parameters[name] + delta[name + LORA_SCALE].item() * update
        elif key + INDEX in delta:
            whole = parameters[key].flatten().index_copy(0, delta[key + INDEX], values)
            changed[key] = whole.view(parameters[key].shape)
        elif not key.endswith((INDEX, LORA_B, LORA_SCALE)):
            changed[key] = values
    return changed


def mean_changes(parameters: Mapping[str, Tensor], delta: Delta) -> dict[str, tuple[float, int]]:
    """Return the mean absolute change and the size of each tensor that a delta changes.

    The mean is over the whole tensor (LayerNorm paper, Eq. 1).
    """
    changes = {}
    for name, after in changed_tensors(parameters, delta).items():
        change = (after - parameters[name]).abs().mean(dtype=torch.float64)
        changes[name] = change.item(), after.numel()
    return changes


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
            entries = [member[name] for member in members]
            is_whole = isinstance(entries[0], Whole)
            read = rows.get(name) if is_whole else None
            self._parts.append(StackedMatrix(name, pretrained, entries, dtype, read))

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
                    delta[name] = pieces[name].clone()
                case Indices(flat):
                    index = torch.from_numpy(flat).to(self._start.device)
                    delta |= {name: pieces[name].flatten()[index], name + INDEX: index}
                case LowRank(scale=scale):
                    delta |= {key: pieces[key].clone() for key in (name + LORA_A, name + LORA_B)}
                    delta[name + LORA_SCALE] = pieces[name + LORA_A].new_full((1,), scale)
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


class StackedMatrix:
    """A matrix of the encoder that ``k`` runs train, each run with its own values.

    Each run has *master weights*, the whole matrix in the model's dtype. The leaf of a run that
    trains all of it is its master weights; if entries train, the leaf has them ``[e]``. The forward
    pass reads the working copies of all runs, one tensor ``[k, …]`` in the dtype of products, which
    gets a gradient. If the dtypes are equal, they share the master weights' memory.

    Args:
        pretrained: the matrix before training.
        entries: what of the matrix each run trains: all of it, or some entries.
        dtype: the dtype of products.
        rows: of a table of embeddings, the only rows that texts read; None: all rows train.
        masters: the master weights ``[k, …]``; default: the pretrained matrix.
    """

    def __init__(
        self,
        name: str,
        pretrained: Tensor,
        entries: Sequence[Entry],
        dtype: torch.dtype,
        rows: Tensor | None = None,
        masters: Tensor | None = None,
    ):
        self._name, self._pretrained, self._entries, self._rows = name, pretrained, entries, rows
        if masters is None:
            start = pretrained if rows is None else pretrained[rows]
            masters = start.repeat(len(entries), *[1] * start.ndim)
        self._masters = masters
        self._working = masters.detach().to(dtype).requires_grad_()
        # New memory at every step would take a CPU long.
        self._cast = masters.new_empty(masters.shape[1:]) if dtype != masters.dtype else None
        self._indices = [
            torch.from_numpy(entry.flat).to(masters.device) if isinstance(entry, Indices) else None
            for entry in entries
        ]
        self.leaves = [
            master if index is None else master.flatten()[index]
            for master, index in zip(masters, self._indices, strict=True)
        ]

    def gradient(self, position: int) -> Tensor | None:
        """Return the gradient of a run's leaf, which is valid until the next call, for any run.

        The gradient of the whole matrix is computed, and then its trained entries are read.
        """
        if self._working.grad is None:
            return None
        gradient, index = self._working.grad[position], self._indices[position]
        if index is not None:
            gradient = gradient.flatten()[index]
            return gradient.to(self._masters.dtype)
        return gradient if self._cast is None else self._cast.copy_(gradient)

    def clear(self) -> None:
        self._working.grad = None

    def write(self) -> None:
        for master, leaf, index in zip(self._masters, self.leaves, self._indices, strict=True):
            if index is not None:
                master.view(-1).index_copy_(0, index, leaf)
        if self._cast is not None:
            self._working.copy_(self._masters)

    def weights(self, positions: Sequence[int]) -> dict[str, Weight]:
        working = self._working
        if len(positions) < len(working):
            working = working[list(positions)]
        return {self._name: PerRun(working, self._rows)}

    def delta(self, position: int) -> Delta:
        leaf, index = self.leaves[position], self._indices[position]
        if self._rows is not None:
            return {self._name: self._pretrained.index_copy(0, self._rows, leaf)}
        values = {self._name: leaf.clone()}
        return values if index is None else values | {self._name + INDEX: index}

    def only(self, positions: Sequence[int]) -> Self:
        entries = [self._entries[position] for position in positions]
        dtype, masters = self._working.dtype, self._masters[list(positions)]
        return type(self)(self._name, self._pretrained, entries, dtype, self._rows, masters)
