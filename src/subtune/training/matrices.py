"""Matrices that train by their own entries, whole or in part. A run that has some trains alone."""

import numpy as np
import torch
from torch import Tensor, nn

from subtune.models import forward
from subtune.models.encoder import Encoder
from subtune.selections.entries import Entries, Indices
from subtune.training.bank import is_matrix
from subtune.training.delta import INDEX_SUFFIX, Delta


class Matrices:
    """The matrices that one run trains; ``leaves`` are what an optimiser steps.

    Of a matrix that trains in part a copy holds the values; `write` puts them there after a step.
    """

    def __init__(self, model: Encoder, entries: Entries):
        self._whole: dict[str, nn.Parameter] = {}
        self._parts: dict[str, _Part] = {}
        for name, entry in entries.items():
            if not is_matrix(model, name, entry):
                continue
            if isinstance(entry, Indices):
                self._parts[name] = _Part(model.parameters[name], entry.flat)
            else:
                self._whole[name] = nn.Parameter(model.parameters[name].clone())
        self.leaves = [*self._whole.values(), *(part.values for part in self._parts.values())]

    def parameters(self) -> dict[str, Tensor]:
        """The matrices under their names, and beside a partly trained one what tells its part."""
        found: dict[str, Tensor] = dict(self._whole)
        for name, part in self._parts.items():
            found[name] = part.matrix
            found[name + forward.VALUES] = part.values
            found[name + forward.ROWS] = part.rows
            found[name + forward.COLUMNS] = part.columns
        return found

    def write(self) -> None:
        """Let the copies hold what the leaves hold."""
        for part in self._parts.values():
            part.matrix[part.rows, part.columns] = part.values.detach()

    def delta(self) -> Delta:
        """A copy of what is trained, as `subtune.training.delta` describes it."""
        found: Delta = {name: leaf.detach().clone() for name, leaf in self._whole.items()}
        for name, part in self._parts.items():
            found[name] = part.values.detach().clone()
            found[name + INDEX_SUFFIX] = part.index
        return found


class _Part:
    """A copy of a matrix, and the entries of it that train."""

    def __init__(self, matrix: Tensor, index: np.ndarray):
        self.index = torch.from_numpy(index).to(matrix.device)
        self.rows = torch.div(self.index, matrix.shape[1], rounding_mode="floor")
        self.columns = self.index % matrix.shape[1]
        self.matrix = matrix.clone()
        self.values = nn.Parameter(matrix.flatten()[self.index])
