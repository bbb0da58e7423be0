"""The time of training side by side, in shares by kind of operator."""

import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import inputs
from subtune.training.groups import runs_at_once
from subtune.training.recipe import train

STEPS = 8
KINDS = {
    "products with weights": {"addmm", "mm"},
    "attention's products": {"bmm", "baddbmm"},
    "softmax": {"_softmax", "_softmax_backward_data"},
    "GELU": {"gelu", "gelu_backward"},
    "LayerNorm": {"native_layer_norm", "native_layer_norm_backward"},
    "into buckets and back": {"index_select", "index_copy_", "cat"},
    "copies": {"copy_"},
    "dropout's products and masks": {"mul", "mul_", "ge"},
}


def activity() -> ProfilerActivity:
    """Return the activity that is profiled: that of a GPU, if there is one."""
    return ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU


def seconds_of(profiler: profile) -> dict[Any, float]:
    """Return the seconds of each event of a profile, without the events that it starts."""
    on_gpu = torch.cuda.is_available()
    return {
        event: 1e-6 * (event.self_device_time_total if on_gpu else event.self_cpu_time_total)
        for event in profiler.key_averages()
    }


def measure(glue_dir: Path, tasks: list[str]) -> list[dict[str, Any]]:
    """Return one row per task and kind of operator: its share of the time of two short epochs."""
    return [row for task in tasks for row in _measure(task, glue_dir)]


def _measure(task: str, glue_dir: Path) -> list[dict[str, Any]]:
    setting = inputs.glue(task, glue_dir, train=STEPS * inputs.BATCH, others=1)
    members = inputs.members(setting.model, inputs.LEARNING_RATES, epochs=2, method="layernorm")
    members = members[: runs_at_once(setting.model, setting.examples["train"], members)]
    train(setting.model, setting.examples, setting.task, members)
    with profile(activities=[activity()]) as profiler:
        started = time.perf_counter()
        train(setting.model, setting.examples, setting.task, members)
        seconds = time.perf_counter() - started
    every = seconds_of(profiler).items()
    spent = {event.key.removeprefix("aten::"): of_event for event, of_event in every}
    shares = {kind: sum(spent.get(name, 0) for name in names) for kind, names in KINDS.items()}
    shares["other operators"] = sum(spent.values()) - sum(shares.values())
    shares["random numbers, Python"] = seconds - sum(spent.values())
    return [
        {"task": setting.task.title, "runs": len(members), "kind": kind, "share": spent / seconds}
        for kind, spent in shares.items()
    ]
