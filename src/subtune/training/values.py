"""Trained values: side by side in memory, their optimiser, and deltas.

Side by side, each run has a row of ``p`` numbers: vectors, the classifier and low-rank updates, one
after the other. Every run starts from the same row and trains some of its numbers. A delta has one
run's trained values. In its file, a completely trained tensor has its own name. A partly trained
tensor has its values ``[e]`` under its name, and their indices in the flattened tensor under
``<name>.index``. A low-rank update has ``<name>.lora_A`` ``[r, i]``, ``<name>.lora_B`` ``[o, r]``
and ``<name>.lora_scale`` ``[1]``. Shapes: ``k`` runs, ``p`` numbers of a row, ``e`` entries, ``o``
outputs, ``i`` inputs, ``r`` rank.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from subtune.families.base import is_added, is_classifier
from subtune.models.encoder import Encoder
from subtune.models.operations import LowRankUpdate, PerRun, TableRows, Weight
from subtune.selections.kind import Entries, Entry, Indices, LowRank, Whole
from subtune.training.matrices import ChangedEntries, ChangedTensor, Matrix, matrix_of

INDEX, LORA_A, LORA_B, LORA_SCALE = ".index", ".lora_A", ".lora_B", ".lora_scale"
# The key of a piece of a row: a tensor's name, and "values", "lora_a" or "lora_b".
Piece = tuple[str, str]


@dataclass(frozen=True)
class AddedUpdate:
    """A low-rank update of a matrix: ``scale · B A``, ``[o, i]`` (LoRA, Eq. 3)."""

    lora_a: Tensor
    lora_b: Tensor
    scale: float

    def applied_to(self, matrix: Tensor) -> Tensor:
        lora_a, lora_b = self.lora_a.to(matrix.device), self.lora_b.to(matrix.device)
        return matrix + self.scale * (lora_b @ lora_a)


Change = ChangedTensor | ChangedEntries | AddedUpdate
# Canonical name to the change of its tensor.
Delta = dict[str, Change]


def applied(parameters: Mapping[str, Tensor], delta: Mapping[str, Change]) -> dict[str, Tensor]:
    """Return pretrained parameters with a delta's values; unchanged parameters are shared, not
    copied."""
    changed = {name: change.applied_to(parameters[name]) for name, change in delta.items()}
    return {**parameters, **changed}


def to_stored(delta: Mapping[str, Change]) -> dict[str, Tensor]:
    """Return a delta as tensors by their names in a file."""
    stored: dict[str, Tensor] = {}
    for name, change in delta.items():
        match change:
            case ChangedTensor(values):
                stored[name] = values
            case ChangedEntries(values, index):
                stored |= {name: values, name + INDEX: index}
            case AddedUpdate(lora_a, lora_b, scale):
                stored |= {name + LORA_A: lora_a, name + LORA_B: lora_b}
                stored[name + LORA_SCALE] = torch.tensor([scale])
    return stored


def from_stored(stored: Mapping[str, Tensor | np.ndarray]) -> Delta:
    """Return the delta in the tensors of a file."""
    tensors = {key: torch.as_tensor(values) for key, values in stored.items()}
    delta: Delta = {}
    for key, values in tensors.items():
        name = key.removesuffix(LORA_A)
        if name != key:
            scale = tensors[name + LORA_SCALE].item()
            delta[name] = AddedUpdate(values, tensors[name + LORA_B], scale)
        elif key + INDEX in tensors:
            delta[key] = ChangedEntries(values, tensors[key + INDEX])
        elif not key.endswith((INDEX, LORA_B, LORA_SCALE)):
            delta[key] = ChangedTensor(values)
    return delta


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Return whether a matrix or its entries train; on a CPU such a run trains alone."""
    is_small = model.parameters[name].ndim == 1 or is_classifier(name) or is_added(name)
    return not is_small and not isinstance(entry, LowRank)


class TrainedValues:
    """The trainable values of ``k`` runs; an optimiser steps each run's ``leaves``.

    ``members`` are the entries of each run. All start at the model's values. As in LoRA's code (Hu
    et al., 2022), ``A`` is drawn, by ``seed``, like a linear layer's weights, and ``B`` is 0.
    Matrices are outside of the row, and all runs train the same ones.

    ``frozen``: the frozen weights of the forward pass. A matrix has their dtype in products.
    ``rows``: the rows that may change, by the name of a table of embeddings; default: all.
    """

    def __init__(
        self,
        model: Encoder,
        members: Sequence[Entries],
        seed: int,
        frozen: Encoder | None = None,
        rows: Mapping[str, Tensor] | None = None,
    ):
        trained = {name: entry for entries in members for name, entry in entries.items()}
        generator = torch.Generator().manual_seed(seed)
        start: dict[Piece, Tensor] = {}
        self._scales: dict[str, float] = {}
        for name, tensor in model.parameters.items():
            match trained.get(name):
                case None:
                    continue
                case LowRank(rank, scale):
                    outputs, inputs = tensor.shape
                    lora_a = torch.empty(rank, inputs)
                    nn.init.kaiming_uniform_(lora_a, a=math.sqrt(5), generator=generator)
                    start[name, "lora_a"] = lora_a.to(tensor)
                    start[name, "lora_b"] = tensor.new_zeros(outputs, rank)
                    self._scales[name] = scale
                case entry if not is_matrix(model, name, entry):
                    start[name, "values"] = tensor
        self._shapes = {piece: value.shape for piece, value in start.items()}
        self._start = torch.cat([value.flatten() for value in start.values()])
        self._members = [
            {n: entry for n, entry in entries.items() if not is_matrix(model, n, entry)}
            for entries in members
        ]
        self._indices = [self._positions(entries).to(model.device) for entries in self._members]
        self._values = [nn.Parameter(self._start[index].clone()) for index in self._indices]
        names = [n for n, entry in members[0].items() if is_matrix(model, n, entry)]
        # A gradient's norm is summed in this order: first the matrices that train whole.
        names.sort(key=lambda name: isinstance(members[0][name], Indices))
        forward, rows = (frozen or model).parameters, rows or {}
        self._matrices: dict[str, Matrix] = {}
        for name in names:
            dtype, entries = forward[name].dtype, [member[name] for member in members]
            self._matrices[name] = matrix_of(model.parameters[name], entries, dtype, rows.get(name))

    def leaves(self, run: int) -> list[Tensor]:
        """Return the tensors that an optimiser steps."""
        return [self._values[run], *(of.leaves[run] for of in self._matrices.values())]

    def gradients(self, run: int) -> list[Tensor | None]:
        """Return the gradient of each leaf, or None if no loss depends on it."""
        matrices = (of.gradient(run) for of in self._matrices.values())
        return [self._values[run].grad, *matrices]

    def clear(self) -> None:
        """Forget all gradients."""
        for values in self._values:
            values.grad = None
        for matrix in self._matrices.values():
            matrix.clear()

    @torch.no_grad()
    def write(self) -> None:
        """Write the leaves' values into the matrices that the forward pass reads."""
        for matrix in self._matrices.values():
            matrix.write()

    def weights(self, runs: Sequence[int] | None = None) -> dict[str, Weight]:
        """Return the weights of these runs for the forward pass, or of all runs."""
        chosen = range(len(self._values)) if runs is None else runs
        rows = [self._start.index_copy(0, self._indices[n], self._values[n]) for n in chosen]
        pieces = self._split(torch.stack(rows))
        weights = {name: _of_runs(of.weight, chosen) for name, of in self._matrices.items()}
        for (name, part), stacked in pieces.items():
            if part == "values":
                weights[name] = PerRun(stacked)
            elif part == "lora_a":
                lora_b = self._scales[name] * pieces[name, "lora_b"]
                weights[name] = LowRankUpdate(stacked, lora_b)
        return weights

    def delta(self, run: int, leaves: Sequence[Tensor]) -> Delta:
        """Return a run's trained values, from copies of its leaves."""
        vectors, *matrices = leaves
        row = self._start.index_copy(0, self._indices[run], vectors)
        pieces = self._split(row)
        delta: Delta = {}
        for name, entry in self._members[run].items():
            match entry:
                case Whole():
                    delta[name] = ChangedTensor(pieces[name, "values"].clone())
                case Indices(flat):
                    index = torch.from_numpy(flat).to(row.device)
                    values = pieces[name, "values"].flatten()[index]
                    delta[name] = ChangedEntries(values, index)
                case LowRank(_, scale):
                    lora_a, lora_b = pieces[name, "lora_a"].clone(), pieces[name, "lora_b"].clone()
                    delta[name] = AddedUpdate(lora_a, lora_b, scale)
        for (name, of), leaf in zip(self._matrices.items(), matrices, strict=True):
            delta[name] = of.change(run, leaf)
        return delta

    def keep(self, runs: Sequence[int]) -> None:
        """Keep only these runs. Their matrices' leaves move."""
        self._members = [self._members[run] for run in runs]
        self._indices = [self._indices[run] for run in runs]
        self._values = [self._values[run] for run in runs]
        self._matrices = {name: of.kept(runs) for name, of in self._matrices.items()}

    def _split(self, rows: Tensor) -> dict[Piece, Tensor]:
        """Return the pieces of rows ``[…, p]``, each ``[…, *shape]``."""
        pieces = rows.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            piece: values.view(*rows.shape[:-1], *shape)
            for (piece, shape), values in zip(self._shapes.items(), pieces, strict=True)
        }

    def _positions(self, entries: Entries) -> Tensor:
        """Return, in order, the positions within a row that a run trains."""
        positions = []
        for (name, _), piece in self._split(torch.arange(len(self._start))).items():
            if name in entries:
                entry, own = entries[name], piece.flatten()
                if isinstance(entry, Indices):
                    own = own[torch.from_numpy(entry.flat)]
                positions.append(own)
        return torch.cat(positions)


def _of_runs(weight: Weight, runs: Sequence[int]) -> Weight:
    """Return the weight of some runs, which is a copy unless these are all."""
    match weight:
        case PerRun(values) if len(runs) < len(values):
            return PerRun(values[list(runs)])
        case TableRows(values, rows) if len(runs) < len(values):
            return TableRows(values[list(runs)], rows)
    return weight


class AdamW:
    """AdamW in torch's fused kernel, with one learning rate at each step.

    `torch.optim.AdamW` does the same, but it imports torch's compiler, which takes a second per
    job.
    """

    def __init__(self, leaves: Sequence[Tensor], weight_decay: float):
        self.leaves = leaves
        self._weight_decay = weight_decay
        self.betas = 0.9, 0.999
        self._means = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._squares = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._steps = [torch.zeros((), device=leaf.device) for leaf in leaves]

    @torch.no_grad()
    def step(
        self,
        gradients: Sequence[Tensor | None],
        learning_rate: float | Tensor,
        max_grad_norm: float,
    ) -> None:
        """Clip the gradients, and update the leaves that have one."""
        every = zip(self.leaves, gradients, self._means, self._squares, self._steps, strict=True)
        own = [(leaf, gradient, *rest) for leaf, gradient, *rest in every if gradient is not None]
        if not own:
            return
        leaves, kept, means, squares, steps = map(list, zip(*own, strict=True))
        norm = nn.utils.get_total_norm(kept)
        torch._foreach_mul_(kept, (max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        settings: dict[str, Any] = {"fused": True, "amsgrad": False, "maximize": False, "eps": 1e-8}
        settings |= {"lr": learning_rate, "weight_decay": self._weight_decay}
        settings |= {"beta1": self.betas[0], "beta2": self.betas[1]}
        adamw(leaves, kept, means, squares, [], steps, **settings)

    def state(self) -> list[Tensor]:
        """Return the leaves and their averages, for `restore`."""
        return [*self.leaves, *self._means, *self._squares, *self._steps]

    @torch.no_grad()
    def restore(self, state: Sequence[Tensor]) -> None:
        """Continue from a state of `state`."""
        for tensor, saved in zip(self.state(), state, strict=True):
            tensor.copy_(saved)
