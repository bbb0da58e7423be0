"""Several runs of any model that transformers loads, folded into its batch.

The model's own code runs unchanged: ``k`` runs of a batch of ``n`` examples are one batch of
``k·n``, run after run. A module that holds what trains is replaced for the pass by a function that
sees its leading dimension as ``k × n``; every other module is as it was, so that frozen weights are
read once. What has no such leading dimension, as DeBERTa's table of relative positions, cannot
differ by run: then it raises `NotFoldableError`, and the runs train one by one. One run by itself
is always its own model, with its own values in place of the pretrained ones.

Shapes: ``k`` runs, ``n`` examples, ``l`` tokens of the longest, ``q`` tokens that the head reads,
``i`` inputs, ``o`` outputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from subtune.core.errors import SubtuneError, reason_of
from subtune.core.hardware import is_out_of_memory
from subtune.families.base import QUESTION_ANSWERING
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder, Skeleton
from subtune.models.packed import Packed
from subtune.models.products import product_of_each_run, shared_product
from subtune.models.sparse_grad import sparse_linear
from subtune.models.weights import LowRankUpdate, PerRun, SparseEntries, Weight

LINEAR = (nn.Linear, Conv1D)
Forward = Callable[..., Any]


class NotFoldableError(Exception):
    """A module reads something that is not one batch after the other, one of each run."""


def logits(
    model: Encoder,
    batch: Packed,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
) -> Tensor:
    """As `subtune.models.passes.logits`, of a model with a skeleton.

    Raises:
        NotFoldableError: this model computes these runs only one by one.
        SubtuneError: what is no linear layer's matrix trains by a low-rank update, or transformers'
            model reads something else than texts.
    """
    skeleton = model.skeleton
    assert skeleton is not None, "packed families have a forward pass of their own"
    trained = {n: w for n, w in (trained or {}).items() if n not in skeleton.without_effect}
    runs = max(map(_runs, trained.values()), default=1)
    fold = _Fold(runs, len(batch.first))
    tensors = {skeleton.own_names[name]: value for name, value in model.parameters.items()}
    by_module: dict[str, dict[str, Weight]] = {}
    for name, weight in trained.items():
        own = skeleton.own_names[name]
        module, _, part = own.rpartition(".")
        match weight:
            case Tensor():
                tensors[own] = weight
            case PerRun(values) if runs == 1:
                tensors[own] = values[0]
            case SparseEntries(matrix, values, rows, columns) if not _is_linear(skeleton, module):
                tensors[own] = matrix.index_put((rows, columns), values)
            case _:
                by_module.setdefault(module, {})[part] = weight
    # GPT-2's linear layers hold their matrices the other way round.
    tensors |= {own: tensors[own].mT for own in skeleton.transposed}
    replaced = {
        name: _replaced(skeleton.module.get_submodule(name), weights, fold)
        for name, weights in by_module.items()
    }
    skeleton.module.train(masks is not None)
    with (
        _refusing(model.config.model_type),
        _forwards(skeleton.module, replaced),
        _Dropout(masks, fold),
    ):
        outputs = functional_call(
            skeleton.module, tensors | dict(skeleton.buffers), (), _inputs(model, batch, runs)
        )
        return _read(model, batch, outputs, runs)


@contextmanager
def _refusing(model_type: str) -> Iterator[None]:
    """Have whatever transformers' code raises, but for want of memory, say so in one line."""
    try:
        yield
    except (NotFoldableError, SubtuneError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise SubtuneError(
            f"transformers' model of {model_type!r} fails on texts such as these: "
            f"{reason_of(error)}"
        ) from error


def _is_linear(skeleton: Skeleton, module: str) -> bool:
    return type(skeleton.module.get_submodule(module)) in LINEAR


def _runs(weight: Weight) -> int:
    match weight:
        case PerRun(values):
            return len(values)
        case LowRankUpdate(lora_a, _):
            return len(lora_a)
    return 1


def _inputs(model: Encoder, batch: Packed, runs: int) -> dict[str, Tensor]:
    """Every run's batch, padded to its longest example, which begins where it did."""
    size = len(batch.first), batch.longest
    where = batch.example, batch.positions
    padding = model.config.pad_token_id
    columns = {
        "input_ids": (batch.ids.new_full(size, padding), batch.ids),
        "attention_mask": (batch.ids.new_zeros(size), torch.ones_like(batch.ids)),
    }
    if batch.token_type_ids is not None:
        columns["token_type_ids"] = (batch.ids.new_zeros(size), batch.token_type_ids)
    return {
        name: grid.index_put(where, values).repeat(runs, 1)
        for name, (grid, values) in columns.items()
    }


def _read(model: Encoder, batch: Packed, outputs: Any, runs: int) -> Tensor:
    """The logits ``[k, q, o]`` among what transformers' model has computed."""
    if model.head == QUESTION_ANSWERING:
        every = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
    else:
        every = outputs.logits
    every = every.unflatten(0, (runs, -1))
    if batch.reads is None:
        return every
    return every[:, batch.read_of, batch.reads - batch.first[batch.read_of]]


@contextmanager
def _forwards(model: nn.Module, by_name: Mapping[str, Forward]) -> Iterator[None]:
    """Modules compute something else for a while."""
    modules = [model.get_submodule(name) for name in by_name]
    try:
        for module, forward in zip(modules, by_name.values(), strict=True):
            module.forward = forward
        yield
    finally:
        for module in modules:
            module.__dict__.pop("forward", None)


@dataclass(frozen=True)
class _Fold:
    """How many runs, of how many examples each, are one batch."""

    runs: int
    examples: int

    def split(self, x: Tensor) -> Tensor:
        """``[k·n, …]`` to ``[k, n, …]``; of one run anything."""
        if self.runs == 1:
            return x[None]
        if len(x) != self.runs * self.examples:
            raise NotFoldableError(f"{len(x)} are not {self.runs} × {self.examples} examples")
        return x.unflatten(0, (self.runs, self.examples))

    def part(self, x: Any, run: int) -> Any:
        """A run's part of what has a part of every run."""
        if isinstance(x, Tensor) and x.ndim and len(x) == self.runs * self.examples:
            return x[run * self.examples : (run + 1) * self.examples]
        return x


def _replaced(module: nn.Module, weights: Mapping[str, Weight], fold: _Fold) -> Forward:
    """What a module computes of which runs have ``weights`` of their own, by its parts."""
    if type(module) in LINEAR:
        return lambda x: _linear(module, weights, fold.split(x)).flatten(0, 1)
    for part, weight in weights.items():
        if isinstance(weight, LowRankUpdate):
            raise SubtuneError(
                f"selection: {part!r} of {type(module).__name__} is not a linear layer's matrix, "
                "as LoRA needs"
            )
    if type(module) is nn.LayerNorm:
        return lambda x: _layer_norm(module, weights, fold.split(x)).flatten(0, 1)
    return lambda *inputs, **named: _one_by_one(module, weights, fold, inputs, named)


def _linear(module: Any, weights: Mapping[str, Weight], x: Tensor) -> Tensor:
    """``[k, n, …, i]`` to ``[k, n, …, o]``."""
    inputs = x.flatten(1, -2)
    matrix = module.weight.mT if isinstance(module, Conv1D) else module.weight
    match weights.get("weight"):
        case PerRun(values):
            y = product_of_each_run(inputs, values)
        case SparseEntries() as entries:
            y = sparse_linear(inputs, entries)
        case LowRankUpdate(lora_a, lora_b):
            low_rank = product_of_each_run(product_of_each_run(inputs, lora_a), lora_b)
            y = shared_product(inputs, matrix) + low_rank
        case _:
            y = shared_product(inputs, matrix)
    match weights.get("bias"):
        case PerRun(values):
            y = y + values[:, None]
        case _ if module.bias is not None:
            y = y + module.bias
    return y.unflatten(1, x.shape[1:-1])


def _layer_norm(module: nn.LayerNorm, weights: Mapping[str, Weight], x: Tensor) -> Tensor:
    """``[k, n, …, h]`` to the same."""
    y = functional.layer_norm(x, module.normalized_shape, eps=module.eps)
    over_rest = (slice(None), *(None,) * (x.ndim - 2))

    def own(part: str) -> Tensor | None:
        weight = weights.get(part)
        return weight.values[over_rest] if isinstance(weight, PerRun) else getattr(module, part)

    weight, bias = own("weight"), own("bias")
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _one_by_one(
    module: nn.Module,
    weights: Mapping[str, Weight],
    fold: _Fold,
    inputs: Sequence[Any],
    named: Mapping[str, Any],
) -> Tensor:
    """The module's own code, once for every run."""
    read = [x for x in (*inputs, *named.values()) if isinstance(x, Tensor)]
    fold.split(read[0])
    forward = module.__dict__.pop("forward")
    try:
        outputs = [
            functional_call(
                module,
                {part: _values(weight)[run] for part, weight in weights.items()},
                tuple(fold.part(x, run) for x in inputs),
                {name: fold.part(x, run) for name, x in named.items()},
            )
            for run in range(fold.runs)
        ]
    finally:
        module.forward = forward
    if not all(isinstance(output, Tensor) for output in outputs):
        raise NotFoldableError(f"{type(module).__name__} computes more than one tensor")
    return torch.cat(outputs)


def _values(weight: Weight) -> Tensor:
    assert isinstance(weight, PerRun), f"{type(weight).__name__} cannot train here"
    return weight.values


class _Dropout(TorchFunctionMode):
    """One mask for every run's batch, drawn as in the packed pass."""

    def __init__(self, masks: DropoutMasks | None, fold: _Fold):
        super().__init__()
        self._masks, self._fold = masks, fold

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is functional.dropout:
            return self._dropped(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _dropped(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not p or self._masks is None:
            return input
        if len(input) != self._fold.runs * self._fold.examples:
            return input * self._masks.draw(input.shape, p)
        by_run = self._fold.split(input)
        return (by_run * self._masks.draw(by_run.shape[1:], p)).flatten(0, 1)
