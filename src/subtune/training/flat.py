"""Small tensors of runs side by side, flattened into one vector per run.

Shapes: ``k`` runs, ``p`` numbers in a flat vector, ``e`` trained entries.
"""

import copy
import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from subtune.methods.selection import Entries, Indices, LowRank, Whole
from subtune.models.encoder import Encoder
from subtune.models.operations import LowRankUpdate, PerRun, Weight
from subtune.training.deltas import (
    LORA_A,
    LORA_B,
    AddedUpdate,
    ChangedEntries,
    ChangedTensor,
    Delta,
)
from subtune.training.trained_weights import TrainedWeights


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
