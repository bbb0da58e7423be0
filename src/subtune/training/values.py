"""The trained values of runs that train side by side.

The part of a tensor that a run trains is called the tensor's *entry*. The entry determines which
class keeps the trained values. A *leaf* is a tensor of trained values that the optimizer of one run
updates. The forward pass reads a *weight* with the values of all runs. A *delta* maps the keys of
the saved file to the tensors that one run changed. Their shapes are::

    entry                          elements  weight                       delta
    Whole                                                                 key NAME
      vector, added module  [s]    s         PerRun [k, s]                [s]
      classifier            [o, i] o·i       PerRun [k, o, i]             [o, i]
      matrix                [o, i] o·i    *  PerRun [k, o, i]             [o, i]
      embeddings            [v, h] u·h    *  PerRun [k, u, h], rows [u]   [v, h]
    Indices                                                               keys NAME, NAME.index
      vector                [s]    e         PerRun [k, s]                [e], [e]
      matrix                [o, i] e      *  PerRun [k, o, i]             [e], [e]
    LowRank                                                               keys NAME.lora_A, .lora_B,
      matrix                [o, i] r·(i+o)   LowRankUpdate [k, r, i],       .lora_scale
                                               [k, o, r]                  [r, i], [o, r], [1]

A tensor marked with ``*`` has a `StackedMatrix`, which has one leaf per run, ``[o, i]``, ``[u, h]``
or ``[e]``. All other tensors share one `FlatTensors`, whose leaf concatenates the elements of a
run. With weight decay, embeddings are stored like any other matrix.

The column *elements* is the number of values that one run trains. Shapes: ``k`` runs, ``p``
elements of a flat leaf, ``e`` trained entries, ``s`` elements of a tensor, ``o`` outputs and ``i``
inputs of a matrix, ``r`` rank; ``v`` rows of an embedding table, ``u`` of which are read in
training, ``h`` columns.
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

Delta = dict[str, Tensor]
INDEX, LORA_A, LORA_B, LORA_SCALE = ".index", ".lora_A", ".lora_B", ".lora_scale"


def changed_tensors(parameters: Mapping[str, Tensor], delta: Delta) -> dict[str, Tensor]:
    """Apply a delta to pretrained tensors, and return the changed tensors by name.

    Whole tensors are not copied. A low-rank update adds ``scale · B A`` (LoRA, Eq. 3).
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
    """Map each tensor in a delta to its mean absolute change and its size.

    The mean is over the whole tensor, including entries that are not trained (LayerNorm paper, Eq.
    1).
    """
    changes = {}
    for name, after in changed_tensors(parameters, delta).items():
        change = (after - parameters[name]).abs().mean(dtype=torch.float64)
        changes[name] = change.item(), after.numel()
    return changes


class TrainedValues:
    """The trained values of runs that train side by side.

    Each matrix of the encoder is kept in a `StackedMatrix`. Vectors, the classifier, added modules
    and low-rank updates are kept in one `FlatTensors`. All runs start from the same values and must
    train the same matrices. The argument ``position`` of methods is the index of a run.

    Args:
        model: the model with the initial values of the runs.
        members: the entries of each run, by tensor name.
        seed: the seed that initializes low-rank updates.
        frozen: the model of the forward pass, in which matrices have the dtype of matrix products;
            None means ``model``.
        rows: maps the name of an embedding table to the indices of the rows that may change. If a
            table is not in this mapping, all of its rows may change.
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
        # Matrices that are trained entirely come first. The order affects rounding, because the
        # gradient norm is summed in this order.
        names.sort(key=lambda name: isinstance(members[0][name], Indices))
        small = [
            {name: entry for name, entry in entries.items() if name not in names}
            for entries in members
        ]
        self._parts: list[FlatTensors | StackedMatrix] = [FlatTensors(model, small, seed)]
        for name in names:
            pretrained, dtype = model.parameters[name], forward[name].dtype
            entries = [member[name] for member in members]
            read = rows.get(name) if isinstance(entries[0], Whole) else None
            self._parts.append(StackedMatrix(name, pretrained, entries, dtype, read))

    def leaves(self, position: int) -> list[Tensor]:
        """Return the tensors that the optimizer of a run updates."""
        return [part.leaves[position] for part in self._parts]

    def gradients(self, position: int) -> list[Tensor | None]:
        """Return a run's gradient for each leaf; None if the loss does not depend on the leaf."""
        return [part.gradient(position) for part in self._parts]

    def clear_gradients(self) -> None:
        for part in self._parts:
            part.clear_gradients()

    @torch.no_grad()
    def copy_leaves(self) -> None:
        """Copy the values of the leaves to the tensors that the forward pass reads."""
        for part in self._parts:
            part.copy_leaves()

    def weights(self, positions: Sequence[int] | None = None) -> dict[str, Weight]:
        """Return the weights of the runs at ``positions`` (None: all) for the forward pass."""
        chosen = range(len(self._parts[0].leaves)) if positions is None else positions
        return {
            name: weight for part in self._parts for name, weight in part.weights(chosen).items()
        }

    @torch.no_grad()
    def delta(self, position: int) -> Delta:
        """Return copies of the tensors that a run has changed so far."""
        return {key: values for part in self._parts for key, values in part.delta(position).items()}

    def select_runs(self, positions: Sequence[int]) -> Self:
        kept = copy.copy(self)
        kept._parts = [part.select_runs(positions) for part in self._parts]
        return kept


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Return whether an entry is kept in a `StackedMatrix` instead of in `FlatTensors`."""
    is_small = model.parameters[name].ndim == 1 or is_classifier(name) or is_added(name)
    return not is_small and not isinstance(entry, LowRank)


class FlatTensors:
    """Vectors, the classifier, added modules and low-rank updates of ``k`` runs.

    These tensors are concatenated to a *flat vector* ``[p]`` for each run. The leaf of a run
    contains the elements that the run trains; all other elements keep their initial values.
    Therefore the flat vectors can be stacked to ``[k, p]`` even if the runs train different
    tensors.

    As in the code of LoRA (Hu et al., 2022), the ``A`` of a low-rank update is initialized like the
    weights of a linear layer, and ``B`` is 0.
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
        self._trained = [
            self._list_trained_indices(entries).to(model.device) for entries in members
        ]
        self.leaves = [nn.Parameter(self._start[index].clone()) for index in self._trained]

    def gradient(self, position: int) -> Tensor | None:
        return self.leaves[position].grad

    def clear_gradients(self) -> None:
        for leaf in self.leaves:
            leaf.grad = None

    def copy_leaves(self) -> None:
        """Do nothing, because `weights` reads the leaves directly."""

    def weights(self, positions: Sequence[int]) -> dict[str, Weight]:
        vectors = torch.stack([self._build_vector(position) for position in positions])
        tensors = self._split_vectors(vectors)
        weights: dict[str, Weight] = {}
        for name, entry in self._entries.items():
            if isinstance(entry, LowRank):
                lora_b = entry.scale * tensors[name + LORA_B]
                weights[name] = LowRankUpdate(tensors[name + LORA_A], lora_b)
            else:
                weights[name] = PerRun(tensors[name])
        return weights

    def delta(self, position: int) -> Delta:
        tensors = self._split_vectors(self._build_vector(position))
        delta: Delta = {}
        for name, entry in self._members[position].items():
            match entry:
                case Whole():
                    delta[name] = tensors[name].clone()
                case Indices(flat):
                    index = torch.from_numpy(flat).to(self._start.device)
                    delta |= {name: tensors[name].flatten()[index], name + INDEX: index}
                case LowRank(scale=scale):
                    delta |= {key: tensors[key].clone() for key in (name + LORA_A, name + LORA_B)}
                    delta[name + LORA_SCALE] = tensors[name + LORA_A].new_full((1,), scale)
        return delta

    def select_runs(self, positions: Sequence[int]) -> Self:
        kept = copy.copy(self)
        kept._members = [self._members[position] for position in positions]
        kept._trained = [self._trained[position] for position in positions]
        kept.leaves = [self.leaves[position] for position in positions]
        return kept

    def _build_vector(self, position: int) -> Tensor:
        """Build the flat vector ``[p]`` of a run from the initial values and its leaf."""
        return self._start.index_copy(0, self._trained[position], self.leaves[position])

    def _split_vectors(self, vectors: Tensor) -> dict[str, Tensor]:
        """Split flat vectors ``[…, p]``. Return tensors ``[…, *shape]`` by their keys in a file."""
        parts = vectors.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            key: values.view(*vectors.shape[:-1], *shape)
            for (key, shape), values in zip(self._shapes.items(), parts, strict=True)
        }

    def _list_trained_indices(self, entries: Entries) -> Tensor:
        """List the indices ``[e]`` of a run's trained elements in its flat vector, ascending."""
        tensors = self._split_vectors(torch.arange(len(self._start)))
        trained = []
        for name in self._entries:
            match entries.get(name):
                case Whole():
                    trained.append(tensors[name].flatten())
                case Indices(flat):
                    trained.append(tensors[name].flatten()[torch.from_numpy(flat)])
                case LowRank():
                    trained += [tensors[name + key].flatten() for key in (LORA_A, LORA_B)]
        return torch.cat(trained)


class StackedMatrix:
    """One matrix of the encoder, with the values of ``k`` runs.

    The *master weights* of a run are the matrix in the dtype of the model. If a run trains the
    whole matrix, its leaf is the master weights. If a run trains only some entries, its leaf is a
    vector ``[e]`` of these entries, and `copy_leaves` copies the leaf to the master weights.

    The forward pass reads the *working copies*, a tensor ``[k, …]`` in the dtype of matrix
    products. Autograd computes the gradient of the working copies. If the model also has the dtype
    of matrix products, the working copies share the memory of the master weights.

    Args:
        entries: the trained part of the matrix in each run: ``Whole`` or ``Indices``.
        rows: the indices of the trained rows of an embedding table, which the master weights keep;
            None means all.
        masters: the master weights ``[k, …]``; None means copies of the pretrained matrix.
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
        self._master_weights = masters
        self._working_copies = masters.detach().to(dtype).requires_grad_()
        # The buffer is reused, because allocating memory at every step is slow on a CPU.
        buffer = masters.new_empty(masters.shape[1:]) if dtype != masters.dtype else None
        self._gradient_buffer = buffer
        self._indices = [
            torch.from_numpy(entry.flat).to(masters.device) if isinstance(entry, Indices) else None
            for entry in entries
        ]
        self.leaves = [
            master if index is None else master.flatten()[index]
            for master, index in zip(masters, self._indices, strict=True)
        ]

    def gradient(self, position: int) -> Tensor | None:
        """Return the gradient of a run's leaf, or None if the loss does not depend on the leaf.

        The next call for any run may overwrite the returned tensor.
        """
        if self._working_copies.grad is None:
            return None
        gradient, index = self._working_copies.grad[position], self._indices[position]
        if index is not None:
            return gradient.flatten()[index].to(self._master_weights.dtype)
        return gradient if self._gradient_buffer is None else self._gradient_buffer.copy_(gradient)

    def clear_gradients(self) -> None:
        self._working_copies.grad = None

    def copy_leaves(self) -> None:
        for master, leaf, index in zip(
            self._master_weights, self.leaves, self._indices, strict=True
        ):
            if index is not None:
                master.view(-1).index_copy_(0, index, leaf)
        if self._gradient_buffer is not None:
            self._working_copies.copy_(self._master_weights)

    def weights(self, positions: Sequence[int]) -> dict[str, Weight]:
        working = self._working_copies
        if len(positions) < len(working):
            working = working[list(positions)]
        return {self._name: PerRun(working, self._rows)}

    def delta(self, position: int) -> Delta:
        leaf, index = self.leaves[position], self._indices[position]
        if self._rows is not None:
            return {self._name: self._pretrained.index_copy(0, self._rows, leaf)}
        values = {self._name: leaf.clone()}
        return values if index is None else values | {self._name + INDEX: index}

    def select_runs(self, positions: Sequence[int]) -> Self:
        entries = [self._entries[position] for position in positions]
        dtype, masters = self._working_copies.dtype, self._master_weights[list(positions)]
        return type(self)(self._name, self._pretrained, entries, dtype, self._rows, masters)
