"""Fisher information of a pretrained model, before any fine-tuning (LayerNorm paper, Eq. 2).

The mean over examples of the squared gradient of log p(y|x), with the true label and without
dropout. Squaring the mean gradient of a batch is a different number.

No gradient of a matrix is ever formed. Every module hands over its input ``x`` and the gradient
``g`` of its output; a matrix's squared gradient sums to ‖Σ_t g_t x_tᵀ‖² = Σ_ts (g_t·g_s)(x_t·x_s).

Shapes: ``n`` examples, ``t`` and ``s`` tokens, ``o`` outputs, ``i`` inputs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import safetensors.numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

from subtune.models.encoder import (
    EncoderClassifier,
    canonical_name,
    canonical_parameters,
    reset_classifier,
)
from subtune.tasks import Task
from subtune.training.batches import Rows, in_length_order
from subtune.training.recipe import labels_of, loss_of


@dataclass(frozen=True)
class Fisher:
    """Fisher information.

    ``entries``: in full, for every vector of the model (LayerNorm and all biases), by name.
    ``sums``: one row per tensor: ``parameter``, ``size``, ``information`` (summed over entries).
    """

    entries: dict[str, np.ndarray]
    sums: pd.DataFrame


def fisher_information(
    model: EncoderClassifier,
    tokens: datasets.Dataset,
    task: Task,
    rows: int | None = None,
    seed: int = 0,
) -> Fisher:
    """Estimate the Fisher information over a training set, or over ``rows`` of its rows."""
    reset_classifier(model, seed)
    model.eval()
    device = model.classifier.weight.device
    if rows is not None:
        chosen = np.random.default_rng(seed).permutation(len(tokens))[:rows]
        tokens = tokens.select(sorted(chosen))
    data = Rows(tokens)
    parameters = canonical_parameters(model)
    totals = {
        name: torch.zeros(p.shape if p.ndim == 1 else (), dtype=torch.float64, device=device)
        for name, p in parameters.items()
    }
    with _watched(model, totals):
        for index in in_length_order(data.lengths):
            logits = model(_with_positions(model, data.batch(index, device))).float()
            loss = loss_of(task, logits, labels_of(data, index, task, device))
            # log p of a regression is −½·(y−ŷ)² for a unit variance: half the squared error.
            (loss / 2 if task.is_regression else loss).backward()
    mean = {name: (total / len(data)).cpu().numpy() for name, total in totals.items()}
    return Fisher(
        entries={name: value for name, value in mean.items() if value.ndim == 1},
        sums=pd.DataFrame(
            {
                "parameter": list(mean),
                "size": [parameters[name].numel() for name in mean],
                "information": [float(value.sum()) for value in mean.values()],
            }
        ),
    )


def write(fisher: Fisher, entries: Path, sums: Path) -> None:
    """Write the vectors' information as safetensors and the tensors' sums as CSV."""
    safetensors.numpy.save_file(fisher.entries, entries)
    fisher.sums.to_csv(sums, index=False)


@contextmanager
def _watched(model: EncoderClassifier, totals: dict[str, Tensor]) -> Iterator[None]:
    """While it lasts, every backward pass adds each example's squared gradients to ``totals``."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.LayerNorm | nn.Embedding):
                own = {
                    leaf: totals[canonical_name(f"{path}.{leaf}")]
                    for leaf, _ in module.named_parameters(recurse=False)
                }
                hooks.callback(module.register_forward_hook(_observer(own)).remove)
            elif list(module.named_parameters(recurse=False)):
                raise TypeError(f"no rule for the gradient of {type(module).__name__} ({path})")
        yield


def _observer(totals: dict[str, Tensor]):
    """A forward hook that adds one module's squared per-example gradients to ``totals``."""

    def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        x = inputs[0].detach()
        if isinstance(module, nn.Embedding):
            _observe_embedding(module, x, output, totals["weight"])
            return

        def observe(gradient: Tensor) -> None:
            g = gradient.detach()
            if g.ndim == 2:
                add(x.unsqueeze(1), g.unsqueeze(1))
            else:
                add(x, g)

        def add(x: Tensor, g: Tensor) -> None:
            """``x`` is ``[n, t, i]``, ``g`` is ``[n, t, o]``."""
            if isinstance(module, nn.LayerNorm):
                normalised = functional.layer_norm(x, module.normalized_shape, eps=module.eps)
                totals["weight"] += _sum_of_squares((g * normalised).sum(1))
                totals["bias"] += _sum_of_squares(g.sum(1))
            else:
                gram = (g @ g.mT) * (x @ x.mT)
                totals["weight"] += gram.sum(dtype=torch.float64)
                totals["bias"] += _sum_of_squares(g.sum(1))

        output.register_hook(observe)

    return hook


def _observe_embedding(module: nn.Embedding, ids: Tensor, output: Tensor, total: Tensor) -> None:
    """A row's gradient is the sum over the tokens ``t`` with its id; ``ids`` is ``[n, t]``."""

    def observe(gradient: Tensor) -> None:
        g = gradient.detach()
        same = ids[:, :, None] == ids[:, None, :]
        if module.padding_idx is not None:
            same = same & (ids != module.padding_idx)[:, :, None]
        total.add_(((g @ g.mT) * same).sum(dtype=torch.float64))

    output.requires_grad_(True)
    output.register_hook(observe)


def _with_positions(model: EncoderClassifier, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give every example its own positions ``[n, t]``; BERT would share one row of them.

    RoBERTa already makes its own, from the padding.
    """
    if model.backbone.config.model_type != "bert":
        return batch
    ids = batch["input_ids"]
    return batch | {"position_ids": torch.arange(ids.shape[1], device=ids.device).expand_as(ids)}


def _sum_of_squares(per_example: Tensor) -> Tensor:
    """``[n, o]`` per-example gradients to ``[o]``."""
    return per_example.to(torch.float64).square().sum(0)
