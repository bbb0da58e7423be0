"""Matrix products: the speed of a large product on this device, and how many training needs."""

import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import inputs
from subtune.tasks.examples import Examples
from subtune.training.recipe import Run, train

LARGEST = {"cpu": 2048, "cuda": 8192}
SMALLEST = 256
# A product that takes so long is large enough: without instructions for it bfloat16 is very slow.
SECONDS = 0.05
FEW_ROWS = 16


def measure(repeats: int = 10) -> dict[str, Any]:
    """Return the FLOP/s of a large product in each precision: the best of ``repeats``."""
    return {
        name: _product_flops(dtype, repeats)
        for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items()
    }


def flops_per_token(setting: inputs.Setting, member: Run) -> float:
    """Return the products that a run needs per training token, without padding and evaluation.

    They are counted on the CPU, because they cannot be counted in a replay on a GPU.
    """
    few = {
        split: Examples(setting.tokens[split].select(range(1))) for split in setting.task.evaluation
    }
    few["train"] = Examples(
        setting.tokens["train"].select(range(min(FEW_ROWS, len(setting.tokens["train"]))))
    )
    with FlopCounterMode(display=False) as counter:
        train(setting.model.to("cpu"), few, setting.task, [member])
    tokens = few["train"].lengths.sum() * member.recipe.epochs
    return counter.get_total_flops() / int(tokens)


def _product_flops(dtype: torch.dtype, repeats: int) -> float:
    # A GPU loads its library for the first product.
    _seconds_of_product(SMALLEST, dtype)
    size = SMALLEST
    while _seconds_of_product(size, dtype) < SECONDS and size < LARGEST[inputs.device()]:
        size *= 2
    return 2 * size**3 / min(_seconds_of_product(size, dtype) for _ in range(repeats))


def _seconds_of_product(size: int, dtype: torch.dtype) -> float:
    a, b = (torch.randn(size, size, device=inputs.device(), dtype=dtype) for _ in range(2))
    inputs.synchronise()
    started = time.perf_counter()
    a @ b
    inputs.synchronise()
    return time.perf_counter() - started
