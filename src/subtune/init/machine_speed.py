"""An estimate of this machine's speed from one matrix product per precision."""

import os

import torch
from torch.utils.benchmark import Timer

from subtune.config.schema import Assumptions
from subtune.core import jobs

# Minutes until a job trains, on two laptop cores.
START_MINUTES = 0.15
# Training on two busy cores reaches about this share of a large product's speed.
SHARE_OF_PRODUCT = 0.33
# Milliseconds per layer that a step takes beside its products.
MILLISECONDS_PER_LAYER = 3.0
# Rows and columns of the matrices.
WIDTH = 1024
# Each product is repeated for about so long. The fastest time counts.
SECONDS = 0.2


def estimate_speed() -> Assumptions:
    """Return assumptions for this machine, from a few timed products on one core or the GPU.

    The speed of a real model may differ by a factor of two.
    """
    device = jobs.prepare(threads=1)
    name = jobs.device_name(device)
    return Assumptions(
        device=f"one core of {name}" if device.type == "cpu" else name,
        teraflops={
            "fp32": _training_teraflops(torch.float32, device),
            "bf16": _training_teraflops(torch.bfloat16, device),
        },
        milliseconds_per_layer=MILLISECONDS_PER_LAYER,
        start_minutes=START_MINUTES,
    )


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_jobs_at_once() -> int:
    """Return how many jobs train at the same time: one on a GPU, else one per core."""
    return 1 if torch.cuda.is_available() else count_cores()


def _training_teraflops(dtype: torch.dtype, device: torch.device) -> float:
    """Return 10¹² operations per second that training may reach, with two digits."""
    matrix = torch.ones(WIDTH, WIDTH, dtype=dtype, device=device)
    timer = Timer("matrix @ matrix", globals={"matrix": matrix})
    fastest = min(timer.blocked_autorange(min_run_time=SECONDS).times)
    return float(f"{SHARE_OF_PRODUCT * 2 * WIDTH**3 / fastest / 1e12:.2g}")
