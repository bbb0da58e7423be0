"""Fisher information of a pretrained model, before any fine-tuning.

The Fisher information is the mean over examples of the squared gradient of log p(y|x), with the
true label and without dropout (LayerNorm paper, Eq. 2). Squaring the mean gradient of a batch would
give a different number.

In models with subtune's own forward pass, the squares are computed from the input ``x`` of each
module and the gradient ``g`` of the module's output. The squared gradient of one example, summed
over a matrix, is ‖Σ_t g_t x_tᵀ‖² = Σ_ts (g_t·g_s)(x_t·x_s). This sum needs the inner products of an
example's tokens, ``[n, l, l]``, but not the gradient of the matrix. The squared gradient of a
single entry is the square of Σ_t g[n,t,o]·x[n,t,i]. On a CPU, these sums are computed for a part of
one example's gradient that fits into the cache; on a GPU, they are computed for many examples at
once. Matrix products use float32, because squaring a gradient doubles its relative rounding error.

Shapes: ``n`` examples, ``t`` and ``s`` tokens of a batch (all tokens, or those that the head
reads), ``l`` tokens of the longest example, ``o`` outputs and ``i`` inputs of a module.
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
from subtune.data.subsets import find_others
from subtune.methods.roles import is_embedding, is_key_bias, is_norm
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.packing import PackedBatch, pack_batch
from subtune.runs.spec import Fold, Labels
from subtune.tasks import TaskSpec
from subtune.tasks.examples import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    Examples,
    evaluation_batches,
)
from subtune.training.evaluation import autocast
from subtune.training.training_set import draw_training_indices, to_training_labels

# The number of elements in a tile, which takes a megabyte on a CPU and a gigabyte on a GPU.
TILE = 1 << 18
GPU_TILE = 1 << 28
# A function that computes −log p of a batch's labels from the logits, summed over examples. The
# logits are ``[1, q, o]``, where ``q`` is the number of tokens that the head reads.
Nats = Callable[[Tensor, PackedBatch], Tensor]
# Maps the name of a tensor to its squared gradients, summed over examples. The value has the shape
# of the tensor, or is a scalar if the squares are also summed over the tensor.
Totals = dict[str, Tensor]


@dataclass(frozen=True)
class Fisher:
    """Fisher information of entries and of tensors.

    Attributes:
        entries: maps the name of a vector or requested matrix to the information of its entries.
        sums: a table with a row per tensor, and the columns ``parameter`` (its name), ``size``, and
            ``information`` (the sum over its entries).
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
    fold: Fold | None = None,
) -> Fisher:
    """Compute the Fisher information of a pretrained model on a training set.

    Args:
        tokens: the token ids and labels of the training set.
        rows: the number of rows to draw, with all their examples; None means all.
        seed: the seed for drawing rows and for initializing the classifier.
        only: names of the tensors whose information is computed; None means all.
        in_full: names of the matrices whose information is computed for every entry.
        labels: ``raw``, or ``standard`` to standardise the labels of a regression.
        fold: a fold whose examples are left out.
    """
    model = with_new_classifier(model, seed)
    examples, nats = prepare_examples(model, tokens, task, rows, seed, labels, fold)
    totals = {}
    for name, value in model.parameters.items():
        if only is None or name in only:
            shape = value.shape if value.ndim == 1 or name in in_full else ()
            totals[name] = torch.zeros(shape, dtype=torch.float64, device=model.device)
    with autocast(model.device, "fp32"):
        if model.transformers is None:
            summed = partial(_sum_by_module, model, examples, nats, totals)
            call_in_memory(summed, model, examples)
        else:
            _sum_by_example(model, examples, nats, totals)
    mean = {name: (total / len(examples)).cpu().numpy() for name, total in totals.items()}
    sums = [
        (name, model.parameters[name].numel(), float(value.sum())) for name, value in mean.items()
    ]
    return Fisher(
        entries={name: value for name, value in mean.items() if value.ndim},
        sums=pd.DataFrame(sums, columns=["parameter", "size", "information"]),
    )


def prepare_examples(
    model: Encoder,
    tokens: datasets.Dataset,
    task: TaskSpec,
    rows: int | None,
    seed: int,
    labels: Labels,
    fold: Fold | None,
) -> tuple[Examples, Nats]:
    """Select the examples that `fisher_information` describes, and return the function `Nats`."""
    if fold:
        tokens = tokens.select(find_others(Examples(tokens, model.tokens_read), task, fold))
    if rows is not None:
        # A run with this seed draws the same rows.
        every, generator = Examples(tokens, model.tokens_read), np.random.default_rng(seed)
        tokens = tokens.select(sorted(draw_training_indices(every, rows, generator)))
    examples = Examples(tokens, model.tokens_read)
    examples, _ = to_training_labels(examples, np.arange(len(examples)), labels)
    kind, factor = task.of_kind, task.of_kind.loss_to_nats_factor(task.outputs)

    def nats(outputs: Tensor, batch: PackedBatch) -> Tensor:
        return factor * kind.losses(outputs, batch.labels, batch.read_of).sum()

    return examples, nats


def call_in_memory(compute: Callable[[int], None], model: Encoder, examples: Examples) -> None:
    """Call a function with the tokens of a batch, which are halved until the memory suffices."""
    tokens = EVALUATION_TOKENS if model.device.type == "cpu" else GPU_EVALUATION_TOKENS
    while True:
        try:
            return compute(tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or tokens <= examples.lengths.max():
                raise
        tokens //= 2


def _sum_by_module(
    model: Encoder, examples: Examples, nats: Nats, totals: Totals, tokens_per_batch: int
) -> None:
    """Compute ``totals`` from inputs and gradients of modules."""
    for total in totals.values():
        total.zero_()
    # The longest examples come first, because they need the most memory.
    for index in reversed([*evaluation_batches(examples.lengths, tokens_per_batch)]):
        batch = pack_batch(examples, index, model)
        tokens = _PackedTokens(batch.example, examples.lengths[index])
        read = _PackedTokens(batch.read_of, examples.read_counts[index])
        watch = partial(_add_hook, model, tokens, read, totals)
        nats(compute_logits(model, batch, watch=watch), batch).backward()


def _sum_by_example(model: Encoder, examples: Examples, nats: Nats, totals: Totals) -> None:
    """Add the squared gradients to ``totals``, with one pass per example, for any model.

    The formulas of `_sum_by_module` hold only for subtune's own forward pass.
    """
    leaves = {name: model.parameters[name].clone().requires_grad_(True) for name in totals}
    for number in range(len(examples)):
        batch = pack_batch(examples, np.array([number]), model)
        loss = nats(compute_logits(model, batch, leaves), batch)
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for total, gradient in zip(totals.values(), gradients, strict=True):
            if gradient is not None:
                squares = gradient.double().square()
                total.add_(squares if total.ndim else squares.sum())


class _PackedTokens:
    """The positions of tokens in a batch, in which examples are packed one after another.

    Attributes:
        example: for each token, the index of its example, ``[t]``.
        start: for each token, the index of the first token of its example, ``[t]``.
        position: for each token, its position within its example, ``[t]``.
        size: ``(n, l)``.
    """

    def __init__(self, example: Tensor, counts: np.ndarray):
        first = torch.from_numpy(counts.cumsum() - counts).to(example.device)
        self.example = example
        self.start = first[example]
        self.position = torch.arange(len(example), device=example.device) - self.start
        self.size = (len(counts), int(counts.max()))


def _add_hook(
    model: Encoder,
    tokens: _PackedTokens,
    read: _PackedTokens,
    totals: Totals,
    module: str,
    x: Tensor,
    y: Tensor,
) -> None:
    """Add a hook that adds the squared gradients of a module's tensors in the backward pass.

    The module's input ``x`` is ``[1, t, i]``, or ids ``[t]`` for an embedding; its output ``y`` is
    ``[1, t, o]``. ``read`` describes the tokens that the head reads.
    """
    name = f"{module}.weight"
    weight, bias = totals.get(name), totals.get(f"{module}.bias")
    if weight is None and bias is None:
        return
    is_table = is_embedding(name)
    inputs = x[:, None] if is_table else x.detach()[0]

    def add_squares(gradient: Tensor) -> None:
        g = gradient.detach()[0]
        # The number of gradients shows which tokens the module reads. If `tokens` and `read` have
        # the same number of tokens, they are the same tokens.
        packed = tokens if len(g) == len(tokens.example) else read
        if bias is not None and not is_key_bias(f"{module}.bias"):
            bias.add_(_vector_squares(g, packed))
        if weight is None:
            return
        if is_norm(name):
            eps = model.config.layer_norm_eps
            normalised = functional.layer_norm(inputs, inputs.shape[-1:], eps=eps)
            weight.add_(_vector_squares(g * normalised, packed))
        elif weight.ndim and is_table:
            weight.index_add_(0, *_embedding_squares(x, g, packed))
        elif weight.ndim:
            weight.add_(_matrix_squares(inputs, g, packed))
        else:
            weight.add_(_summed_matrix_squares(inputs, g, packed))

    if not y.requires_grad:
        y.requires_grad_(True)
    y.register_hook(add_squares)


def _summed_matrix_squares(x: Tensor, g: Tensor, packed: _PackedTokens) -> Tensor:
    """Compute Σ_ts (g_t·g_s)(x_t·x_s) over the tokens of an example, summed over examples.

    For an embedding table, ``x`` has ids ``[t, 1]``, and x_t·x_s is 1 for equal ids and 0
    otherwise.
    """
    # Padding has the id 0, but it contributes nothing because its gradients are 0.
    x, g = _pad_examples(x, packed), _pad_examples(g, packed)
    products = x @ x.mT if x.is_floating_point() else x == x.mT
    return ((g @ g.mT) * products).sum(dtype=torch.float64)


def _matrix_squares(x: Tensor, g: Tensor, packed: _PackedTokens) -> Tensor:
    """Compute Σ_n (Σ_t g[n, t, o]·x[n, t, i])², ``[o, i]``, in tiles of `TILE` or `GPU_TILE`."""
    x, g = _pad_examples(x, packed), _pad_examples(g, packed)
    if x.shape[1] == 1:
        return g[:, 0].square().mT @ x[:, 0].square()
    outputs, inputs = g.shape[2], x.shape[2]
    size = TILE if x.device.type == "cpu" else GPU_TILE
    height = min(outputs, max(1, size // inputs))
    count = max(1, size // (height * inputs))
    information = x.new_zeros(outputs, inputs)
    for above, below in zip(g.mT.split(count), x.split(count), strict=True):
        for tile, part in zip(information.split(height), above.split(height, 1), strict=True):
            # These operations read the gradients only once, because memory bandwidth limits speed.
            if len(part) == 1:
                gradient = part[0] @ below[0]
                tile.addcmul_(gradient, gradient)
            else:
                tile.add_(torch.linalg.vector_norm(part @ below, dim=0).square_())
    return information


def _embedding_squares(ids: Tensor, g: Tensor, packed: _PackedTokens) -> tuple[Tensor, Tensor]:
    """Return ``ids`` and the squared gradients of their rows in the embedding table, ``[t, o]``.

    The gradients of an id in an example are summed. The square of the sum is returned at the first
    occurrence, and 0 at all others.
    """
    grid = _pad_examples(ids[:, None], packed)
    # `argmax` returns the first position with the maximum.
    first = (grid == grid.mT).byte().argmax(2)[packed.example, packed.position]
    gradients = torch.zeros_like(g).index_add_(0, packed.start + first, g)
    return ids, gradients.double().square_()


def _pad_examples(values: Tensor, packed: _PackedTokens) -> Tensor:
    """Reshape packed values ``[t, o]`` to ``[n, l, o]``, padded with 0."""
    grid = values.new_zeros(*packed.size, values.shape[1])
    grid[packed.example, packed.position] = values
    return grid


def _vector_squares(gradients: Tensor, packed: _PackedTokens) -> Tensor:
    """Sum gradients ``[t, o]`` over each example's tokens, square them, and sum over examples."""
    sums = gradients.new_zeros(packed.size[0], gradients.shape[1])
    sums.index_add_(0, packed.example, gradients)
    return sums.to(torch.float64).square().sum(0)
