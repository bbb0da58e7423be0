"""What a large matrix product reaches on this device."""

import time
from typing import Any

import torch

from benchmarks import inputs

SIZE = 2048


def measure(repeats: int = 10) -> dict[str, Any]:
    """FLOP/s of a large product in each precision, the best of ``repeats``."""
    return {
        name: _product_flops(dtype, repeats)
        for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items()
    }


def _product_flops(dtype: torch.dtype, repeats: int) -> float:
    a, b = (torch.randn(SIZE, SIZE, device=inputs.device(), dtype=dtype) for _ in range(2))
    seconds = []
    for _ in range(repeats):
        _synchronise()
        started = time.perf_counter()
        a @ b
        _synchronise()
        seconds.append(time.perf_counter() - started)
    return 2 * SIZE**3 / min(seconds)


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
