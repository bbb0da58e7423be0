"""The trainable values of runs that train side by side, and the parameters that they make.

Vectors, the classifier and low-rank updates lie end to end in one row of ``p`` numbers. Every run
starts from the same row and owns the places of it that it trains.

Shapes: ``k`` runs, ``p`` places of a row, ``o`` outputs, ``i`` inputs, ``r`` rank.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from subtune.models import forward
from subtune.models.encoder import Encoder, new_classifier
from subtune.selections.entries import CLASSIFIER, Entries, Entry, Indices, LowRank, Whole
from subtune.training.delta import DOWN_SUFFIX, INDEX_SUFFIX, SCALE_SUFFIX, UP_SUFFIX, Delta


class Bank:
    """Trainable values of ``k`` runs; ``values`` has each run's own, the leaves that are stepped.

    As in LoRA's own code ``A`` ``[r, i]`` is drawn as a linear layer's weights are and ``B``
    ``[o, r]`` is 0, so that training starts at the pretrained model (Hu et al., 2022).
    """

    def __init__(self, model: Encoder, members: Sequence[Entries], seed: int):
        start = _start(model, members, seed)
        self._shapes = {name: value.shape for name, value in start.items()}
        self._start = torch.cat([value.flatten() for value in start.values()])
        self._members = [
            {n: entry for n, entry in entries.items() if not is_matrix(model, n, entry)}
            for entries in members
        ]
        self._scales = {
            name: entry.scale
            for entries in members
            for name, entry in entries.items()
            if isinstance(entry, LowRank)
        }
        places = [self._places(entries) for entries in self._members]
        self._places_of = [torch.from_numpy(index).to(model.device) for index in places]
        self.values = [nn.Parameter(self._start[index].clone()) for index in self._places_of]

    def parameters(self) -> dict[str, Tensor]:
        """Banked tensors; those of a single run have the model's own shapes."""
        runs = len(self.values)
        rows = torch.stack(
            [
                self._start.index_copy(0, places, values)
                for places, values in zip(self._places_of, self.values, strict=True)
            ]
        )
        found: dict[str, Tensor] = {}
        pieces = rows.split([shape.numel() for shape in self._shapes.values()], dim=1)
        for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True):
            tensor = piece.view(runs, *shape)
            if name.endswith(DOWN_SUFFIX):
                found[name.removesuffix(DOWN_SUFFIX) + forward.DOWN] = tensor
            elif name.endswith(UP_SUFFIX):
                matrix = name.removesuffix(UP_SUFFIX)
                found[matrix + forward.UP] = self._scales[matrix] * tensor
            else:
                found[name] = tensor.squeeze(0) if runs == 1 else tensor
        return found

    def delta(self, run: int) -> Delta:
        """A copy of what a run has trained, as `subtune.training.delta` describes it."""
        row = self._start.index_copy(0, self._places_of[run], self.values[run].detach())
        pieces = row.split([shape.numel() for shape in self._shapes.values()])
        tensors = {
            name: piece.view(shape).clone()
            for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }
        found: Delta = {}
        for name, entry in self._members[run].items():
            if isinstance(entry, LowRank):
                found |= {key: tensors[key] for key in (name + DOWN_SUFFIX, name + UP_SUFFIX)}
                found[name + SCALE_SUFFIX] = torch.tensor([entry.scale])
            elif isinstance(entry, Whole):
                found[name] = tensors[name]
            else:
                index = torch.from_numpy(entry.flat).to(row.device)
                found |= {name: tensors[name].flatten()[index], name + INDEX_SUFFIX: index}
        return found

    def keep(self, runs: Sequence[int]) -> None:
        """Let the other runs go."""
        self._members = [self._members[run] for run in runs]
        self._places_of = [self._places_of[run] for run in runs]
        self.values = [self.values[run] for run in runs]

    def _places(self, entries: Entries) -> np.ndarray:
        """The places of a row that a run trains, sorted."""
        found = []
        start = 0
        for name, shape in self._shapes.items():
            matrix = name.removesuffix(DOWN_SUFFIX).removesuffix(UP_SUFFIX)
            if matrix in entries:
                entry = entries[matrix]
                some = entry.flat if isinstance(entry, Indices) else np.arange(shape.numel())
                found.append(start + some)
            start += shape.numel()
        return np.concatenate(found)


def is_matrix(model: Encoder, name: str, entry: Entry) -> bool:
    """Whether a matrix trains by its own entries: too many for every run to have its own."""
    is_vector = model.parameters[name].ndim == 1 or name in CLASSIFIER
    return not is_vector and not isinstance(entry, LowRank)


def _start(model: Encoder, members: Sequence[Entries], seed: int) -> dict[str, Tensor]:
    """What every run starts from, by the names that a delta has for it."""
    generator = torch.Generator().manual_seed(seed)
    pretrained = model.parameters | new_classifier(model, seed)
    trained = {name: entry for entries in members for name, entry in entries.items()}
    start: dict[str, Tensor] = {}
    for name, tensor in pretrained.items():
        entry = trained.get(name)
        if isinstance(entry, LowRank):
            outputs, inputs = tensor.shape
            down = torch.empty(entry.rank, inputs)
            nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
            start[name + DOWN_SUFFIX] = down.to(tensor.device)
            start[name + UP_SUFFIX] = torch.zeros(outputs, entry.rank, device=tensor.device)
        elif name in trained and not is_matrix(model, name, trained[name]):
            start[name] = tensor
    return start
