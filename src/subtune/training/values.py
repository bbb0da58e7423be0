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

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from subtune.methods.selection import Entries, Indices
from subtune.models.encoder import Encoder
from subtune.models.operations import Weight
from subtune.training.deltas import Delta
from subtune.training.flat import FlatTensors
from subtune.training.matrices import is_matrix, matrix_of
from subtune.training.trained_weights import TrainedWeights


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
