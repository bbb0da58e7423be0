"""Matrices whose entries train, all or some. A run with such matrices trains alone."""

import torch
from torch import nn

from subtune.models.encoder import Encoder
from subtune.models.weights import SparseEntries, Weight
from subtune.selections.kind import Entries, Indices
from subtune.training.delta import ChangedEntries, ChangedTensor, Delta
from subtune.training.stacked import is_matrix


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
