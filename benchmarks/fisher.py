"""Compare the time that subtune and two other implementations need for Fisher information.

    python -m benchmarks.fisher --glue-dir /path/to/glue --rows 16

prints a table for MiniLM and, on a GPU, also for a model with the shapes of BERT-base.

The other implementations are a loop over single examples and ``torch.func.vmap`` of the gradient.
BackPACK 1.7.1 is not compared, because it does not support LayerNorm. For MiniLM's linear layers
alone, its ``SumGradSquared`` takes seconds per sentence.
"""

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging

from benchmarks import inputs
from benchmarks.measurements import measure_products
from benchmarks.scaling import SHAPES
from subtune.methods import METHODS
from subtune.methods.selection import require_whole
from subtune.models.encoder import draw_classifier
from subtune.tasks.examples import Examples
from subtune.training.fisher_information import fisher_information

# Examples per call of vmap. It stores the gradient of every parameter for each of them.
VMAP_EXAMPLES = {"cpu": 8, "cuda": 32}
# On a CPU, the loop takes minutes for larger models. BERT-base has random weights, because the
# time does not depend on their values.
MODELS = {"cpu": ("MiniLM",), "cuda": ("MiniLM", "BERT-base")}
# Examples on which FLOPs are counted; the count is scaled by the number of tokens.
COUNTED_EXAMPLES = 4
# All implementations run in turn, this many times. The shortest time of each is reported.
REPEATS = 3

Row = dict[str, Any]
Sums = dict[str, float]
Batch = tuple[dict[str, Tensor], Tensor]


def measure(glue_dir: Path, tasks: dict[str, int]) -> list[Row]:
    """Measure each implementation on each model, set of parameters, and number of rows of a task.

    ``seconds`` is the shortest time. ``flops_per_second`` divides the FLOPs of the loop by this
    time, and ``times_faster`` compares it with the loop's time. ``largest_difference`` is the
    largest relative difference from the loop's result.
    """
    measured = []
    for model in MODELS[inputs.device()]:
        for name, rows in tasks.items():
            with tempfile.TemporaryDirectory() as folder:
                directory = None
                if model != "MiniLM":
                    directory = Path(folder)
                    AutoModel.from_config(SHAPES[model]).save_pretrained(directory)
                setting = inputs.load_glue(name, glue_dir, directory, train=rows)
                names = list(setting.model.parameters)
                layernorm = require_whole(METHODS["layernorm"]).names(setting.model.shapes)
                for asked, of in {"all parameters": names, "LayerNorm": layernorm}.items():
                    measured += [
                        {"model": model} | row for row in _measure_ways(setting, asked, of)
                    ]
    return measured


def _measure_ways(setting: inputs.Setting, asked: str, names: list[str]) -> list[Row]:
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
    few = data.select(np.arange(min(COUNTED_EXAMPLES, len(data))))
    with FlopCounterMode(display=False) as counter:
        _fisher_by_loop(model, few, names)
    flops = counter.get_total_flops() * data.lengths.sum() / few.lengths.sum()
    return [
        {
            "task": setting.task.title,
            "asked": asked,
            "way": way,
            "examples": len(data),
            "seconds": seconds[way],
            "flops_per_second": flops / seconds[way],
            "times_faster": seconds[loop] / seconds[way],
            "largest_difference": max(
                abs(value / sums[loop][name] - 1)
                for name, value in sums[way].items()
                # The gradient of a key bias is 0 except for rounding errors.
                if not name.endswith("key.bias")
            ),
        }
        for way in ways
    ]


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


def _padded_batches(
    data: Examples, indices: Iterator[np.ndarray] | list[np.ndarray]
) -> Iterator[Batch]:
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
    for batch, label in _padded_batches(data, list(np.arange(len(data))[:, None])):
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fisher", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument(
        "--rows", type=int, default=256, help="training examples of CoLA; a quarter as many of RTE"
    )
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    large = measure_products()["fp32"]
    table = pd.DataFrame(
        measure(options.glue_dir, {"cola": options.rows, "rte": max(1, options.rows // 4)})
    )
    table["examples/s"] = table["examples"] / table["seconds"]
    table["of a large product"] = table.pop("flops_per_second") / large
    print(f"A product of two large matrices: {large / 1e9:.0f} GFLOP/s.\n")
    print(table.to_markdown(index=False, floatfmt=".3g"))


if __name__ == "__main__":
    main()
