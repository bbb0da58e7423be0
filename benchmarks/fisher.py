"""Compare the time that subtune and two other implementations need for Fisher information.

The other implementations are a loop over single examples and ``torch.func.vmap`` of the gradient.
BackPACK 1.7.1 is not compared, because it does not support LayerNorm. For MiniLM's linear layers
alone, its ``SumGradSquared`` takes seconds per sentence.
"""

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from benchmarks import inputs
from subtune.methods import METHODS
from subtune.methods.selection import require_whole
from subtune.models.encoder import draw_classifier
from subtune.tasks.examples import Examples
from subtune.training.fisher_information import fisher_information

# Training examples by task. CoLA has short sentences and RTE long pairs, so both take equally long.
ROWS = {"cola": 256, "rte": 64}
# Examples per call of vmap. It stores the gradient of every parameter for each of them.
VMAP_EXAMPLES = {"cpu": 8, "cuda": 32}
# All implementations run in turn, this many times. The shortest time of each is reported.
REPEATS = 3

Sums = dict[str, float]
Batch = tuple[dict[str, Tensor], Tensor]


def measure(glue_dir: Path, tasks: Sequence[str], rows: int | None) -> Iterator[dict[str, Any]]:
    """Measure each implementation for each task and set of parameters of MiniLM.

    ``seconds`` is the shortest time. ``times_faster`` compares it with the loop's time.
    ``largest_difference`` is the largest relative difference from the loop's result.
    """
    for task in tasks:
        setting = inputs.load_glue(task, glue_dir, train=min(ROWS[task], rows or ROWS[task]))
        layernorm = require_whole(METHODS["layernorm"]).names(setting.model.shapes)
        yield from _measure_ways(setting, "all parameters", [*setting.model.parameters])
        yield from _measure_ways(setting, "LayerNorm", layernorm)


def _measure_ways(
    setting: inputs.Setting, asked: str, names: list[str]
) -> Iterator[dict[str, Any]]:
    data, model = setting.examples["train"], _load_transformers_model(setting)
    ways: dict[str, Callable[[], Sums]] = {
        "loop over examples": lambda: _fisher_by_loop(model, data, names),
        "torch.func.vmap": lambda: _fisher_by_vmap(model, data, names),
        "subtune": lambda: _fisher_by_subtune(setting, names),
    }
    if asked == "all parameters":
        ways["subtune, sums of matrices"] = lambda: _fisher_by_subtune(
            setting, names, entries=False
        )
    seconds: dict[str, float] = {}
    sums: dict[str, Sums] = {}
    for way, run in itertools.chain(*[ways.items()] * REPEATS):
        started = time.perf_counter()
        sums[way] = run()
        seconds[way] = min(time.perf_counter() - started, seconds.get(way, math.inf))
    loop = next(iter(ways))
    for way in ways:
        yield {
            "task": setting.task.title,
            "asked": asked,
            "way": way,
            "examples": len(data),
            "seconds": seconds[way],
            "times_faster": seconds[loop] / seconds[way],
            "largest_difference": max(
                abs(value / sums[loop][name] - 1)
                for name, value in sums[way].items()
                # The gradient of a key bias is 0 except for rounding errors.
                if not name.endswith("key.bias")
            ),
        }


def _fisher_by_subtune(setting: inputs.Setting, names: list[str], entries: bool = True) -> Sums:
    parameters = setting.model.parameters
    in_full = [name for name in names if parameters[name].ndim > 1] if entries else []
    information = fisher_information(
        setting.model, setting.tokens["train"], setting.task, only=names, in_full=in_full
    )
    return dict(zip(information.sums["parameter"], information.sums["information"], strict=True))


def _load_transformers_model(setting: inputs.Setting) -> PreTrainedModel:
    """Load the transformers model, with the initial classifier that subtune draws."""
    model = AutoModelForSequenceClassification.from_pretrained(
        setting.directory, num_labels=setting.task.outputs, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        for name, value in draw_classifier(setting.model, seed=0).items():
            model.get_parameter(name).copy_(value)
    return model.to(inputs.device())


def _parameters_by_name(model: PreTrainedModel) -> dict[str, nn.Parameter]:
    prefix = f"{model.base_model_prefix}."
    return {name.removeprefix(prefix): value for name, value in model.named_parameters()}


def _padded_batches(data: Examples, indices: Iterable[np.ndarray]) -> Iterator[Batch]:
    """Yield padded inputs and labels, which the other two implementations need."""
    for index in indices:
        longest = data.lengths[index].max()
        columns = {
            name: np.stack([np.pad(values[n], (0, longest - len(values[n]))) for n in index])
            for name, values in data.inputs.items()
        }
        positions = np.arange(longest)
        columns["attention_mask"] = (positions < data.lengths[index, None]).astype(np.int64)
        columns["position_ids"] = np.broadcast_to(positions, columns["input_ids"].shape).copy()
        device = inputs.device()
        tensors = {name: torch.from_numpy(value).to(device) for name, value in columns.items()}
        yield tensors, torch.from_numpy(data.labels[index]).long().to(device)


def _fisher_by_loop(model: PreTrainedModel, data: Examples, names: Collection[str]) -> Sums:
    parameters = _parameters_by_name(model)
    for name, value in parameters.items():
        value.requires_grad_(name in names)
    total = {name: torch.zeros_like(parameters[name]) for name in names}
    for batch, label in _padded_batches(data, np.arange(len(data))[:, None]):
        loss = functional.cross_entropy(model(**batch).logits, label)
        gradients = torch.autograd.grad(loss, [parameters[name] for name in names])
        for name, gradient in zip(names, gradients, strict=True):
            total[name].addcmul_(gradient, gradient)
    return {name: value.double().sum().item() / len(data) for name, value in total.items()}


def _fisher_by_vmap(model: PreTrainedModel, data: Examples, names: Collection[str]) -> Sums:
    prefix = f"{model.base_model_prefix}."
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    asked = {n: value for n, value in parameters.items() if n.removeprefix(prefix) in names}

    def loss(trained: dict[str, Tensor], batch: dict[str, Tensor], label: Tensor) -> Tensor:
        one = {name: value[None] for name, value in batch.items()}
        logits = torch.func.functional_call(model, parameters | trained, (), one).logits
        return functional.cross_entropy(logits, label[None])

    gradients_of = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(value) for name, value in asked.items()}
    order = np.argsort(data.lengths, kind="stable")
    size = VMAP_EXAMPLES[inputs.device()]
    chunks = [order[n : n + size] for n in range(0, len(order), size)]
    for batch, labels in _padded_batches(data, chunks):
        # transformers branches on the values of a 2D mask, which vmap does not support. It uses
        # a 4D mask as it is.
        outside = (1.0 - batch["attention_mask"][:, None, None]) * torch.finfo(torch.float32).min
        batch["attention_mask"] = outside.expand(-1, -1, outside.shape[-1], -1)
        for name, gradient in gradients_of(asked, batch, labels).items():
            total[name] += gradient.square_().sum(0)
    return {
        name.removeprefix(prefix): value.double().sum().item() / len(data)
        for name, value in total.items()
    }
