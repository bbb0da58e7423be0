"""Trainable values of runs that train side by side.

A row of ``p`` numbers holds vectors, the classifier and low-rank updates, one after the other.
Every run starts from the same row and trains some of its numbers.

Shapes: ``k`` runs, ``p`` numbers of a row, ``o`` outputs, ``i`` inputs, ``r`` rank.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from subtune.families.base import is_added, is_classifier
from subtune.models.encoder import Encoder
from subtune.models.weights import LowRankUpdate, PerRun, SparseEntries, Weight
from subtune.selections.kind import Entries, Entry, Indices, LowRank, Whole
from subtune.training.delta import AddedUpdate, ChangedEntries, ChangedTensor, Delta

# A piece of a row: a tensor's name, and "values", "lora_a" or "lora_b".
Piece = tuple[str, str]


class StackedParameters:
    """Trainable values of ``k`` runs; an optimiser steps each run's ``values``.

    As in LoRA's code, ``A`` ``[r, i]`` is drawn like a linear layer's weights, and ``B`` ``[o, r]``
    is 0, so that training starts at the pretrained model (Hu et al., 2022).

    Args:
        model: its values are the start of all others.
        members: the entries of each run.
        seed: draws ``A``.
    """

    def __init__(self, model: Encoder, members: Sequence[Entries], seed: int):
        trained = {name: entry for entries in members for name, entry in entries.items()}
        start = _start(model, trained, seed)
        self._shapes = {piece: value.shape for piece, value in start.items()}
        self._start = torch.cat([value.flatten() for value in start.values()])
        self._members = [
            {n: entry for n, entry in entries.items() if not is_matrix(model, n, entry)}
            for entries in members
        ]
        self._scales = {
            n: entry.scale for n, entry in trained.items() if isinstance(entry, LowRank)
        }
        self._indices = [
            torch.from_numpy(self._indices_in_row(entries)).to(model.device)
            for entries in self._members
        ]
        self.values = [nn.Parameter(self._start[index].clone()) for index in self._indices]

    def weights(self) -> dict[str, Weight]:
        """Return the weights for the forward pass."""
        trained = zip(self._indices, self.values, strict=True)
        rows = [self._start.index_copy(0, index, values) for index, values in trained]
        pieces = self._split(torch.stack(rows))
        weights: dict[str, Weight] = {}
        for (name, part), stacked in pieces.items():
            if part == "values":
                weights[name] = PerRun(stacked)
            elif part == "lora_a":
                lora_b = self._scales[name] * pieces[name, "lora_b"]
                weights[name] = LowRankUpdate(stacked, lora_b)
        return weights

    def delta(self, run: int) -> Delta:
        """Return a copy of what a run has trained."""
        row = self._start.index_copy(0, self._indices[run], self.values[run].detach())
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
        return delta

    def keep(self, runs: Sequence[int]) -> None:
        """Keep these runs only."""
        self._members = [self._members[run] for run in runs]
        self._indices = [self._indices[run] for run in runs]
        self.values = [self.values[run] for run in runs]

    def _split(self, rows: Tensor) -> dict[Piece, Tensor]:
        """Return the pieces of rows ``[…, p]``, each ``[…, *shape]``."""
        pieces = rows.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            piece: values.view(*rows.shape[:-1], *shape)
            for (piece, shape), values in zip(self._shapes.items(), pieces, strict=True)
        }

    def _indices_in_row(self, entries: Entries) -> np.ndarray:
        """Return the indices in a row that a run trains, in order."""
        indices, start = [], 0
        for (name, _), shape in self._shapes.items():
            if name in entries:
                entry = entries[name]
                flat = entry.flat if isinstance(entry, Indices) else np.arange(shape.numel())
                indices.append(start + flat)
            start += shape.numel()
        return np.concatenate(indices)


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Return whether entries of a whole matrix train: such a run trains alone, to save memory."""
    is_small = model.parameters[name].ndim == 1 or is_classifier(name) or is_added(name)
    return not is_small and not isinstance(entry, LowRank)


def _start(model: Encoder, trained: Entries, seed: int) -> dict[Piece, Tensor]:
    """Return the values from which every run starts; ``trained`` has what any run trains."""
    generator = torch.Generator().manual_seed(seed)
    start = {}
    for name, tensor in model.parameters.items():
        entry = trained.get(name)
        if isinstance(entry, LowRank):
            outputs, inputs = tensor.shape
            lora_a = torch.empty(entry.rank, inputs)
            nn.init.kaiming_uniform_(lora_a, a=math.sqrt(5), generator=generator)
            start[name, "lora_a"] = lora_a.to(tensor)
            start[name, "lora_b"] = tensor.new_zeros(outputs, entry.rank)
        elif entry is not None and not is_matrix(model, name, entry):
            start[name, "values"] = tensor
    return start


class Matrices:
    """The matrices that one run trains; an optimiser steps ``leaves``.

    If some entries train, a copy of the matrix holds their values; `write` updates it after a step.
    """

    def __init__(self, model: Encoder, entries: Entries):
        self._whole: dict[str, nn.Parameter] = {}
        self._sparse: dict[str, SparseEntries] = {}
        for name, entry in entries.items():
            if not is_matrix(model, name, entry):
                continue
            matrix = model.parameters[name]
            if isinstance(entry, Indices):
                index = torch.from_numpy(entry.flat).to(matrix.device)
                values = nn.Parameter(matrix.flatten()[index])
                rows, columns = index // matrix.shape[1], index % matrix.shape[1]
                self._sparse[name] = SparseEntries(matrix.clone(), values, rows, columns)
            else:
                self._whole[name] = nn.Parameter(matrix.clone())
        self.leaves = [*self._whole.values(), *(part.values for part in self._sparse.values())]

    def weights(self) -> dict[str, Weight]:
        """Return the matrices for the forward pass."""
        return {**self._whole, **self._sparse}

    def write(self) -> None:
        """Write the leaves' values into the copies."""
        for part in self._sparse.values():
            part.matrix[part.rows, part.columns] = part.values.detach()

    def delta(self) -> Delta:
        """Return a copy of what is trained."""
        delta: Delta = {n: ChangedTensor(leaf.detach().clone()) for n, leaf in self._whole.items()}
        for name, part in self._sparse.items():
            index = part.rows * part.matrix.shape[1] + part.columns
            delta[name] = ChangedEntries(part.values.detach().clone(), index)
        return delta
