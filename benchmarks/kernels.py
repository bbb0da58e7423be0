"""A profile of ten steps: how busy the device is, and which kernels take the time.

    python -m benchmarks.kernels --glue-dir /path/to/glue BERT-base/rte/full/8

Prints a line of JSON for each cell, which is a model, a task, a method and a number of runs side
by side, in bf16. Steps run as in a long job, whose operations are compiled.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import datasets
from torch.profiler import profile
from transformers.utils import logging

from benchmarks import inputs, scaling, steps
from benchmarks.lines import Lines
from benchmarks.profile import activity, seconds_of
from benchmarks.scaling import Cell, Settings
from subtune.training.recipe import train

STEPS = 10
KERNELS = 12
# The name of a CUDA kernel begins with its namespace and ends with its template arguments.
CHARACTERS = 90
DEFAULT = ("BERT-base/rte/full/8", "BERT-base/rte/layernorm/32", "BERT-base/cola/layernorm/32")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description=__doc__.splitlines()[0]
    )
    parser.add_argument("cells", nargs="*", default=DEFAULT, help="MODEL/TASK/METHOD/RUNS …")
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    logging.set_verbosity_error()
    datasets.disable_progress_bars()
    options.to.mkdir(parents=True, exist_ok=True)
    lines = Lines(options.to / "kernels.jsonl")
    with scaling.settings(options.glue_dir) as settings:
        for name in options.cells:
            model, task, method, runs = name.split("/")
            way = scaling.SUBTUNE + scaling.COMPILED
            lines.add(measure(Cell(model, task, way, method, "bf16", int(runs)), settings))


def measure(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Profile the first steps of a cell's last epoch.

    Returns:
        ``busy``: the share of the time in which a kernel runs, if no two run at once. ``kernels``:
        their number per step. ``top``: a kernel's share of the time and its number per step.
    """
    setting = settings.of(cell.model, cell.task)
    epochs = scaling.EPOCHS[inputs.device()]
    runs = scaling.members_of(cell, setting, epochs)
    begin = (epochs - 1) * setting.steps
    end = begin + min(STEPS, setting.steps)
    profiler = profile(activities=[activity()])
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

    with scaling.compiled(True), steps.observed(before, after):
        train(setting.model, setting.examples, setting.task, runs)
    every = seconds_of(profiler)
    # Calls that start kernels are events too, without time on the device.
    spent = {event.key: of_event for event, of_event in every.items() if of_event}
    counts = {event.key: event.count / (end - begin) for event in every if event.key in spent}
    top = sorted(spent, key=lambda key: -spent[key])[:KERNELS]
    return cell._asdict() | {
        "milliseconds": 1000 * seconds / (end - begin) / cell.runs,
        "busy": sum(spent.values()) / seconds,
        "kernels": sum(counts.values()),
        "top": [[key[:CHARACTERS], round(spent[key] / seconds, 4), counts[key]] for key in top],
    }


if __name__ == "__main__":
    main()
