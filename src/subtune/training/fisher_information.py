"""Fisher information of a pretrained model, before any fine-tuning (LayerNorm paper, Eq. 2).

It is the mean over examples of the squared gradient of log p(y|x), with the true label and without
dropout. The square of a batch's mean gradient is a different number.

In packed families, the information follows from each module's input ``x`` and its output's
gradient ``g``. The sum over a matrix is ‖Σ_t g_t x_tᵀ‖² = Σ_ts (g_t·g_s)(x_t·x_s): it needs only
the products of an example's tokens, ``[n, l, l]``, and no gradient of the matrix. Single entries
need Σ_t g[n,t,o]·x[n,t,i]. It is computed and squared in tiles. A tile is a part of one matrix that
fits into a CPU's cache, or the matrices of many examples on a GPU. Products are float32, because a
square doubles the relative rounding of a small gradient. Nothing is read back from a GPU before the
end.

Shapes: ``n`` examples, ``t`` and ``s`` rows of a module's input and output (all tokens, or those
that the head reads), ``l`` rows of the longest example, ``o`` outputs, ``i`` inputs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import datasets
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from subtune.core.process import is_out_of_memory
from subtune.methods.roles import is_embedding, is_key_bias, is_norm
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.packing import Packed, pack
from subtune.runs.spec import Labels
from subtune.tasks import TaskSpec
from subtune.tasks.examples import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    Examples,
    evaluation_batches,
)
from subtune.training.evaluation import autocast
from subtune.training.training_set import to_training_labels

# The size of a tile in numbers: a megabyte on a CPU, a gigabyte on a GPU.
TILE = 1 << 18
GPU_TILE = 1 << 28
# A function that returns −log p of a batch's labels, summed over examples. Its first argument is
# logits ``[1, q, o]``, where ``q`` counts the tokens that the head reads.
Nats = Callable[[Tensor, Packed], Tensor]
# By tensor name, squared gradients summed over examples: for each entry, or for the whole tensor.
Totals = dict[str, Tensor]


@dataclass(frozen=True)
class Fisher:
    """Fisher information of entries and of tensors.

    Attributes:
        entries: by tensor name, the information of every entry; it has all vectors (LayerNorm and
            biases) and the requested matrices.
        sums: one row per tensor: ``parameter``, ``size`` and ``information``, summed over entries.
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
    labels: Labels = "raw",
) -> Fisher:
    """Estimate the Fisher information over a training set.

    Args:
        rows: the number of examples to draw; default: all.
        seed: the seed of the drawn examples and of the untrained classifier.
        only: names of the tensors whose information is computed; default: all.
        in_full: names of the matrices whose information is computed for every entry.
        labels: the labels of a regression: raw or standardised.
    """
    kind, factor = task.of_kind, task.of_kind.nats(task.outputs)
    if rows is not None:
        sample = np.random.default_rng(seed).permutation(len(tokens))[:rows]
        tokens = tokens.select(sorted(sample))
    model = with_new_classifier(model, seed)

    def nats(outputs: Tensor, batch: Packed) -> Tensor:
        return factor * kind.losses(outputs, batch.labels, batch.read_of).sum()

    totals = {}
    for name, value in model.parameters.items():
        if only is None or name in only:
            shape = value.shape if value.ndim == 1 or name in in_full else ()
            totals[name] = torch.zeros(shape, dtype=torch.float64, device=model.device)
    examples = Examples(tokens, model.reads)
    examples, _ = to_training_labels(examples, np.arange(len(examples)), labels)
    of_a_batch = EVALUATION_TOKENS if model.device.type == "cpu" else GPU_EVALUATION_TOKENS
    with autocast(model.device, "fp32"):
        if model.transformers is None:
            _add_by_modules(model, examples, nats, totals, of_a_batch)
        else:
            _add_example_by_example(model, examples, nats, totals)
    mean = {name: (total / len(tokens)).cpu().numpy() for name, total in totals.items()}
    sums = [
        (name, model.parameters[name].numel(), float(value.sum())) for name, value in mean.items()
    ]
    return Fisher(
        entries={name: value for name, value in mean.items() if value.ndim},
        sums=pd.DataFrame(sums, columns=["parameter", "size", "information"]),
    )


def _add_by_modules(
    model: Encoder, examples: Examples, nats: Nats, totals: Totals, of_a_batch: int
) -> None:
    """Set ``totals`` to the sums of squared gradients, from modules' inputs and gradients.

    If a batch of ``of_a_batch`` tokens does not fit into memory, start again with half as many.
    """
    for total in totals.values():
        total.zero_()
    try:
        # The longest examples need the most memory.
        for index in reversed([*evaluation_batches(examples.lengths, of_a_batch)]):
            batch = pack(examples, index, model)
            tokens = _Rows(batch.example, examples.lengths[index])
            read = _Rows(batch.read_of, examples.read_counts[index])
            watch = partial(_watch, model, tokens, read, totals)
            nats(logits(model, batch, watch=watch), batch).backward()
        return
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or of_a_batch <= examples.lengths.max():
            raise
    _add_by_modules(model, examples, nats, totals, of_a_batch // 2)


def _add_example_by_example(model: Encoder, examples: Examples, nats: Nats, totals: Totals) -> None:
    """Add each example's squared gradients to ``totals``, with one pass per example.

    This serves transformers' code, whose modules have no known formulas.
    """
    leaves = {name: model.parameters[name].clone().requires_grad_(True) for name in totals}
    for number in range(len(examples)):
        batch = pack(examples, np.array([number]), model)
        loss = nats(logits(model, batch, leaves), batch)
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for total, gradient in zip(totals.values(), gradients, strict=True):
            if gradient is not None:
                squares = gradient.double().square()
                total.add_(squares if total.ndim else squares.sum())


class _Rows:
    """The rows of a batch, in the order of its examples.

    Args:
        example: the example of each row, ``[t]``.
        counts: each example's number of rows.

    Attributes:
        start: the first row of each row's example, ``[t]``.
        position: each row's position within its example, ``[t]``.
        size: ``n`` and ``l``.
    """

    def __init__(self, example: Tensor, counts: np.ndarray):
        first = torch.from_numpy(counts.cumsum() - counts).to(example.device)
        self.example = example
        self.start = first[example]
        self.position = torch.arange(len(example), device=example.device) - self.start
        self.size = (len(counts), int(counts.max()))


def _watch(
    model: Encoder, tokens: _Rows, read: _Rows, totals: Totals, module: str, x: Tensor, y: Tensor
) -> None:
    """Add each example's squared gradients to ``totals``, once ``y`` has its gradient.

    Args:
        tokens: which example each row of ``x`` belongs to, if the module gets all tokens.
        read: the same, if the module gets only the tokens that the head reads.
        totals: the sums so far, by tensor name.
        module: the module's name.
        x: the module's input ``[1, t, i]``, or the ids ``[t]`` that look up an embedding table.
        y: the module's output ``[1, t, o]``.
    """
    name = f"{module}.weight"
    weight, bias = totals.get(name), totals.get(f"{module}.bias")
    if weight is None and bias is None:
        return
    is_table = is_embedding(name)
    inputs = x[:, None] if is_table else x.detach()[0]

    def observe(gradient: Tensor) -> None:
        g = gradient.detach()[0]
        # If `tokens` and `read` have the same number of rows, they are the same rows.
        rows = tokens if len(g) == len(tokens.example) else read
        if bias is not None and not is_key_bias(f"{module}.bias"):
            bias.add_(_sum_of_squares(g, rows))
        if weight is None:
            return
        if is_norm(name):
            eps = model.config.layer_norm_eps
            normalised = functional.layer_norm(inputs, inputs.shape[-1:], eps=eps)
            weight.add_(_sum_of_squares(g * normalised, rows))
        elif weight.ndim and is_table:
            weight.index_add_(0, *_rows_of_a_table(x, g, rows))
        elif weight.ndim:
            weight.add_(_entries_of_a_matrix(inputs, g, rows))
        else:
            weight.add_(_sum_of_a_matrix(inputs, g, rows))

    if not y.requires_grad:
        y.requires_grad_(True)
    y.register_hook(observe)


def _sum_of_a_matrix(x: Tensor, g: Tensor, rows: _Rows) -> Tensor:
    """Return Σ_ts (g_t·g_s)(x_t·x_s) over an example's rows, summed over examples.

    For an embedding table, ``x`` has ids ``[t, 1]``. The product of two tokens is then 1 if their
    ids are equal, and 0 otherwise.
    """
    # Padding has the id 0, and gradients of 0.
    x, g = _on_grid(x, rows), _on_grid(g, rows)
    products = x @ x.mT if x.is_floating_point() else x == x.mT
    return ((g @ g.mT) * products).sum(dtype=torch.float64)


def _entries_of_a_matrix(x: Tensor, g: Tensor, rows: _Rows) -> Tensor:
    """Return Σ_n (Σ_t g[n, t, o]·x[n, t, i])², ``[o, i]``.

    A tile takes as many rows of the matrix as fit, and then as many examples as fit.
    """
    x, g = _on_grid(x, rows), _on_grid(g, rows)
    if x.shape[1] == 1:
        return g[:, 0].square().mT @ x[:, 0].square()
    outputs, inputs = g.shape[2], x.shape[2]
    size = TILE if x.device.type == "cpu" else GPU_TILE
    height = min(outputs, max(1, size // inputs))
    count = max(1, size // (height * inputs))
    information = x.new_zeros(outputs, inputs)
    for above, below in zip(g.mT.split(count), x.split(count), strict=True):
        for tile, part in zip(information.split(height), above.split(height, 1), strict=True):
            # Memory is the bottleneck, so the gradients are read only once.
            if len(part) == 1:
                gradient = part[0] @ below[0]
                tile.addcmul_(gradient, gradient)
            else:
                tile.add_(torch.linalg.vector_norm(part @ below, dim=0).square_())
    return information


def _rows_of_a_table(ids: Tensor, g: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
    """Return ``ids`` and the squared gradient of each id's row of the table, ``[t, o]``.

    If an example has an id several times, the id's first token gets the square and the others 0.
    """
    grid = _on_grid(ids[:, None], rows)
    # `argmax` returns the first of equal numbers.
    first = (grid == grid.mT).byte().argmax(2)[rows.example, rows.position]
    gradients = torch.zeros_like(g).index_add_(0, rows.start + first, g)
    return ids, gradients.double().square_()


def _on_grid(values: Tensor, rows: _Rows) -> Tensor:
    """Return rows ``[t, o]`` by example, ``[n, l, o]``, padded with 0."""
    grid = values.new_zeros(*rows.size, values.shape[1])
    grid[rows.example, rows.position] = values
    return grid


def _sum_of_squares(gradients: Tensor, rows: _Rows) -> Tensor:
    """Return the squares of each example's summed gradients ``[t, o]``, summed over examples."""
    sums = gradients.new_zeros(rows.size[0], gradients.shape[1])
    sums.index_add_(0, rows.example, gradients)
    return sums.to(torch.float64).square().sum(0)
