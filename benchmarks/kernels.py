"""Profile training: the share of time in kernels, and the kernels that take the most time."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import inputs, scaling
from benchmarks.measurements import observe_steps
from benchmarks.scaling import Cell, Settings
from subtune.training.groups import runs_at_once
from subtune.training.recipe import train

STEPS = 10
TOP_KERNELS = 12
# Longer kernel names are cut, because their ends are only template arguments.
LONGEST_NAME = 90
# Tasks, methods and numbers of runs that train side by side.
CELLS = (("rte", "full", 8), ("rte", "layernorm", 32), ("cola", "layernorm", 32))
STEPS_OF_SHARES = 8
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


def measure(
    glue_dir: Path, models: Sequence[str], tasks: Sequence[str], rows: int | None
) -> Iterator[dict[str, Any]]:
    """Profile `CELLS`, in bf16 and with compiled operations, as in a long job."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(glue_dir, Path(folder), rows)
        for model in models:
            for task, method, runs in CELLS:
                if task in tasks:
                    way = scaling.SUBTUNE + scaling.COMPILED
                    yield profile_cell(Cell(model, task, way, method, "bf16", runs), settings)


def profile_cell(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Profile the first steps in the last epoch of a cell.

    ``milliseconds`` is the time of a step divided by the number of runs. ``busy`` is the share of
    the time in kernels (correct if kernels do not overlap). ``kernels`` is their number per step,
    and ``top`` has the name, the share of the time, and the number per step of the most expensive
    ones.
    """
    setting = settings.load(cell.model, cell.task)
    epochs = scaling.EPOCHS[inputs.device()]
    runs = scaling.runs_of_cell(cell, setting, epochs)
    begin = (epochs - 1) * setting.steps
    end = begin + min(STEPS, setting.steps)
    profiler = profile(activities=[profiled_activity()])
    started, seconds = 0.0, 0.0

    def before(number: int) -> None:
        nonlocal started
        if number == begin:
            inputs.synchronise()
            profiler.start()
            started = time.perf_counter()

    def after(number: int) -> None:
        nonlocal seconds
        if number == end - 1:
            inputs.synchronise()
            seconds = time.perf_counter() - started
            profiler.stop()

    with scaling.compile_operations(True), observe_steps(before, after):
        train(setting.model, setting.examples, setting.task, runs)
    every = seconds_of_events(profiler)
    # Kernel launches are events too, but take no time on the device.
    spent = {event.key: of_event for event, of_event in every.items() if of_event}
    counts = {event.key: event.count / (end - begin) for event in every if event.key in spent}
    top = sorted(spent, key=lambda key: -spent[key])[:TOP_KERNELS]
    return cell._asdict() | {
        "milliseconds": 1000 * seconds / (end - begin) / cell.runs,
        "busy": sum(spent.values()) / seconds,
        "kernels": sum(counts.values()),
        "top": [[key[:LONGEST_NAME], round(spent[key] / seconds, 4), counts[key]] for key in top],
    }


def profiled_activity() -> ProfilerActivity:
    """Return the device to profile: the GPU if there is one, otherwise the CPU."""
    return ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU


def seconds_of_events(profiler: profile) -> dict[Any, float]:
    """Return the seconds in each event of a profile, excluding nested events."""
    on_gpu = torch.cuda.is_available()
    return {
        event: 1e-6 * (event.self_device_time_total if on_gpu else event.self_cpu_time_total)
        for event in profiler.key_averages()
    }


def measure_shares(glue_dir: Path, tasks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Measure the share of training time that each kind of operator takes, for each task."""
    for task in tasks:
        setting = inputs.load_glue(task, glue_dir, train=STEPS_OF_SHARES * inputs.BATCH, others=1)
        runs = inputs.runs_of_method(setting.model, "layernorm", inputs.LEARNING_RATES, epochs=2)
        runs = runs[: runs_at_once(setting.model, setting.examples["train"], runs)]
        train(setting.model, setting.examples, setting.task, runs)
        with profile(activities=[profiled_activity()]) as profiler:
            started = time.perf_counter()
            train(setting.model, setting.examples, setting.task, runs)
            seconds = time.perf_counter() - started
        every = seconds_of_events(profiler).items()
        spent = {event.key.removeprefix("aten::"): of_event for event, of_event in every}
        shares = {kind: sum(spent.get(name, 0) for name in names) for kind, names in KINDS.items()}
        shares["other operators"] = sum(spent.values()) - sum(shares.values())
        shares["random numbers, Python"] = seconds - sum(spent.values())
        about = {"task": setting.task.title, "runs": len(runs)}
        yield from (about | {"kind": kind, "share": of / seconds} for kind, of in shares.items())
