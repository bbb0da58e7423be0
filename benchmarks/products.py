"""Matrix products: what a large one reaches on this device, and how many training needs."""

import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import inputs
from subtune.tasks.examples import Examples
from subtune.training.recipe import Member, train

LARGEST, SMALLEST = 2048, 256
# A product that takes so long is large enough: without instructions for it bfloat16 is very slow.
SECONDS = 0.05
FEW_ROWS = 64


def measure(repeats: int = 10) -> dict[str, Any]:
    """FLOP/s of a large product in each precision, the best of ``repeats``."""
    return {
        name: _product_flops(dtype, repeats)
        for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items()
    }


def flops_per_token(setting: inputs.Setting, member: Member) -> float:
    """Products that a run needs for a token of training, padding and evaluation left out."""
    few = {
        split: Examples(setting.tokens[split].select(range(1))) for split in setting.task.evaluation
    }
    few["train"] = Examples(
        setting.tokens["train"].select(range(min(FEW_ROWS, len(setting.tokens["train"]))))
    )
    with FlopCounterMode(display=False) as counter:
        train(setting.model, few, setting.task, [member])
    tokens = few["train"].lengths.sum() * member.recipe.epochs
    return counter.get_total_flops() / int(tokens)


def _product_flops(dtype: torch.dtype, repeats: int) -> float:
    size = SMALLEST
    while _seconds_of_product(size, dtype) < SECONDS and size < LARGEST:
        size *= 2
    return 2 * size**3 / min(_seconds_of_product(size, dtype) for _ in range(repeats))


def _seconds_of_product(size: int, dtype: torch.dtype) -> float:
    a, b = (torch.randn(size, size, device=inputs.device(), dtype=dtype) for _ in range(2))
    _synchronise()
    started = time.perf_counter()
    a @ b
    _synchronise()
    return time.perf_counter() - started


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
