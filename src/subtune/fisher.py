"""Fisher information of a pretrained model, before any fine-tuning (LayerNorm paper, Eq. 2).

The mean over examples of the squared gradient of log p(y|x), with the true label and without
dropout. Squaring the mean gradient of a batch is a different number.

Every module shows its input ``x`` and the gradient ``g`` of its output. Where the sum over a matrix
is enough its gradient is never formed: ‖Σ_t g_t x_tᵀ‖² = Σ_ts (g_t·g_s)(x_t·x_s), which needs the
products of an example's tokens, ``[n, l, l]``. For single entries Σ_t g[n,t,o]·x[n,t,i] is formed
and squared a tile at a time, of at most `TILE` numbers, which a CPU holds in its cache.

Shapes: ``n`` examples, ``t`` and ``s`` tokens, ``l`` tokens of the longest example, ``o`` outputs,
``i`` inputs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import safetensors.numpy
import torch
from torch import Tensor
from torch.nn import functional

from subtune.data.batches import in_length_order
from subtune.models.encoder import Encoder, new_classifier
from subtune.models.forward import logits
from subtune.models.loss import losses_of
from subtune.models.packed import Packed, pack
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples

# Numbers of a tile: a megabyte.
TILE = 1 << 18


@dataclass(frozen=True)
class Fisher:
    """Fisher information.

    ``entries``: in full, for every vector of the model (LayerNorm and all biases) and the matrices
    that were asked for, by name.
    ``sums``: one row per tensor: ``parameter``, ``size``, ``information`` (summed over entries).
    """

    entries: dict[str, np.ndarray]
    sums: pd.DataFrame


def fisher_information(
    model: Encoder,
    tokens: datasets.Dataset,
    task: TaskSpec,
    rows: int | None = None,
    seed: int = 0,
    only: Collection[str] | None = None,
    in_full: Collection[str] = (),
) -> Fisher:
    """Estimate the Fisher information over a training set.

    Args:
        model: the pretrained model on its device.
        tokens: the training set.
        task: decides log p.
        rows: over so many of its rows, drawn by ``seed``.
        seed: also draws the classifier that no one has trained yet.
        only: names of the tensors that are asked for, where not all are; the work of the others is
            left out.
        in_full: names of the matrices whose single entries are asked for.
    """
    if rows is not None:
        sample = np.random.default_rng(seed).permutation(len(tokens))[:rows]
        tokens = tokens.select(sorted(sample))
    data = Examples(tokens, task.of_kind.reads)
    model = Encoder(model.config, model.parameters | new_classifier(model, seed))
    totals = {
        name: torch.zeros(
            value.shape if value.ndim == 1 or name in in_full else (),
            dtype=torch.float64,
            device=model.device,
        )
        for name, value in model.parameters.items()
        if only is None or name in only
    }
    for index in in_length_order(data.lengths):
        batch = pack(data.inputs, data.labels, index, model)
        outputs = logits(model, batch, watch=_observer(model, batch, totals))
        loss = losses_of(task, outputs, batch.labels).sum()
        # log p of a regression is −½·(y−ŷ)² for a unit variance: half the squared error.
        (loss / 2 if task.is_regression else loss).backward()
    mean = {name: (total / len(data)).cpu().numpy() for name, total in totals.items()}
    return Fisher(
        entries={name: value for name, value in mean.items() if value.ndim},
        sums=pd.DataFrame(
            {
                "parameter": list(mean),
                "size": [model.parameters[name].numel() for name in mean],
                "information": [float(value.sum()) for value in mean.values()],
            }
        ),
    )


def write(fisher: Fisher, entries: Path, sums: Path) -> None:
    """Write the vectors' information as safetensors and the tensors' sums as CSV."""
    safetensors.numpy.save_file(fisher.entries, entries)
    fisher.sums.to_csv(sums, index=False)


def _observer(
    model: Encoder, batch: Packed, totals: dict[str, Tensor]
) -> Callable[[str, Tensor, Tensor], None]:
    """Adds each example's squared gradients to ``totals`` on the way back."""
    family = model.family

    def watch(module: str, x: Tensor, y: Tensor) -> None:
        weight, bias = totals.get(f"{module}.weight"), totals.get(f"{module}.bias")
        if weight is None and bias is None:
            return

        def observe(gradient: Tensor) -> None:
            g = gradient.detach()[0]
            if bias is not None and not family.cancels(f"{module}.bias"):
                bias.add_(_sum_of_squares(g, batch))
            if weight is None:
                return
            if family.is_norm(f"{module}.weight"):
                normalised = functional.layer_norm(
                    x.detach()[0], x.shape[-1:], eps=model.config.layer_norm_eps
                )
                weight.add_(_sum_of_squares(g * normalised, batch))
            elif family.is_embedding(f"{module}.weight"):
                if weight.ndim:
                    weight.index_add_(0, *_rows_of_a_table(x, g, batch))
                else:
                    weight.add_(_sum_of_a_table(x, g, batch))
            elif weight.ndim:
                weight.add_(_entries_of_a_matrix(x.detach()[0], g, batch))
            else:
                weight.add_(_sum_of_a_matrix(x.detach()[0], g, batch))

        if not y.requires_grad:
            y.requires_grad_(True)
        y.register_hook(observe)

    return watch


def _sum_of_a_matrix(x: Tensor, g: Tensor, batch: Packed) -> Tensor:
    """Σ_ts (g_t·g_s)(x_t·x_s) over an example's tokens, summed over examples."""
    x, g = _on_grid(x, batch), _on_grid(g, batch)
    return ((g @ g.mT) * (x @ x.mT)).sum(dtype=torch.float64)


def _entries_of_a_matrix(x: Tensor, g: Tensor, batch: Packed) -> Tensor:
    """Σ_n (Σ_t g[n, t, o]·x[n, t, i])², ``[o, i]``."""
    x, g = _on_grid(x, batch), _on_grid(g, batch)
    if x.shape[1] == 1:
        return g[:, 0].square().mT @ x[:, 0].square()
    information = x.new_zeros(g.shape[2], x.shape[2])
    rows = max(1, TILE // x.shape[2])
    # What costs is memory, not products: a tile is written and read while it is in the cache, where
    # the gradients of many examples at once would not be.
    for outputs, below in zip(g.mT, x, strict=True):
        for tile, rows_of_g in zip(information.split(rows), outputs.split(rows), strict=True):
            gradient = rows_of_g @ below
            tile.addcmul_(gradient, gradient)
    return information


def _sum_of_a_table(ids: Tensor, g: Tensor, batch: Packed) -> Tensor:
    """A row's gradient is the sum over the tokens ``t`` with its id; ``ids`` is ``[t]``."""
    # 0 stands in slots that hold no token, whose gradients are 0.
    rows = _on_grid(ids[:, None], batch)
    g = _on_grid(g, batch)
    return ((g @ g.mT) * (rows == rows.mT)).sum(dtype=torch.float64)


def _rows_of_a_table(ids: Tensor, g: Tensor, batch: Packed) -> tuple[Tensor, Tensor]:
    """Which rows an example reads, and its squared gradients of each, for all examples."""
    pairs, token = torch.stack([batch.example, ids]).unique(dim=1, return_inverse=True)
    gradients = g.new_zeros(pairs.shape[1], g.shape[1]).index_add_(0, token, g)
    return pairs[1], gradients.double().square_()


def _on_grid(values: Tensor, batch: Packed) -> Tensor:
    """``[t, o]`` to ``[n, l, o]``, 0 where no token is; ``[n, o]`` to ``[n, 1, o]``."""
    if len(values) == len(batch.first):
        return values[:, None]
    grid = values.new_zeros(*batch.inside.shape, values.shape[1])
    grid[batch.inside] = values
    return grid


def _sum_of_squares(gradients: Tensor, batch: Packed) -> Tensor:
    """``[t, o]`` of tokens, or ``[n, o]``, added within examples; squared and summed to ``[o]``."""
    if len(gradients) != len(batch.first):
        sums = gradients.new_zeros(len(batch.first), gradients.shape[1])
        gradients = sums.index_add_(0, batch.example, gradients)
    return gradients.to(torch.float64).square().sum(0)
