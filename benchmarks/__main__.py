"""Run all benchmarks on this machine's GPU, or on its CPU.

    make bench GLUE_DIR=/path/to/glue

Writes ``benchmarks.json``, ``benchmarks.md`` and ``benchmarks.png`` to ``results/benchmarks``. Each
training time is appended to ``steps.jsonl`` as soon as it is measured. `benchmarks.report` makes
``steps.md`` and ``steps.png`` from this file.
"""

import argparse
import datetime
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers.utils import logging

from benchmarks import fisher, inputs, kernels, report, scaling, sweeps
from benchmarks.measurements import JsonLines, measure_products
from subtune.core.errors import SubtuneError
from subtune.core.process import keep_freed_memory, processor_name

# Training examples by task. CoLA has short sentences and RTE long pairs, so both take equally long.
FISHER_ROWS = {"cola": 256, "rte": 64}
PARTS = ["machine", "products", "fisher", "profile", "scaling", "sweeps"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        help="measure only these; keep the others in --to",
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--rows", type=int, help="use the first ROWS examples of each split (default: all)"
    )
    parser.add_argument("--tasks", nargs="+", choices=FISHER_ROWS, default=[*FISHER_ROWS])
    parser.add_argument("--models", nargs="+", choices=scaling.SHAPES, default=[*scaling.SHAPES])
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="start no new scaling cell after SECONDS"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    try:
        _run_parts(options)
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")


def _run_parts(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    glue = options.glue_dir
    cells = scaling.cells_of_device(options.models, options.tasks)
    limits = options.rows, options.seconds
    parts: dict[str, Callable[[], Any]] = {
        "machine": lambda: _describe_machine(options.threads),
        "products": measure_products,
        "fisher": lambda: fisher.measure(glue, _fisher_examples(options)),
        "profile": lambda: kernels.measure_shares(glue, options.tasks),
        "scaling": lambda: scaling.measure(
            glue, cells, _start_step_file(options.to, measured).append, *limits
        ),
        "sweeps": lambda: sweeps.measure(glue, options.tasks, options.epochs, options.rows),
    }
    options.to.mkdir(parents=True, exist_ok=True)
    path = options.to / "benchmarks.json"
    measured = json.loads(path.read_text()) if path.exists() else {}
    for task in options.tasks:
        inputs.load_task_data(task, glue)  # reports missing files before the first measurement
    for name in options.parts:
        print(f"measuring: {name}", flush=True)
        measured[name] = parts[name]()
        # Write after each part, so that an interruption loses only the current one.
        path.write_text(json.dumps(measured, indent=2) + "\n")
    print(report.write_report(measured, options.to, "benchmarks"))


def _start_step_file(folder: Path, measured: dict[str, Any]) -> JsonLines:
    """Create ``steps.jsonl``, with the machine and its speed on large matrix products first."""
    lines = JsonLines(folder / "steps.jsonl")
    lines.append({name: measured[name] for name in ("machine", "products") if name in measured})
    return lines


def _fisher_examples(options: argparse.Namespace) -> dict[str, int]:
    return {t: min(FISHER_ROWS[t], options.rows or FISHER_ROWS[t]) for t in options.tasks}


def _describe_machine(threads: int) -> dict[str, Any]:
    return {
        "device": _device_name(),
        "threads": threads,
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def _device_name() -> str:
    """Return the name of the GPU, or of the CPU and its bfloat16 instructions."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    flags = Path("/proc/cpuinfo")
    has_bf16 = flags.is_file() and "avx512_bf16" in flags.read_text()
    return processor_name() + ", AVX512-BF16" * has_bf16


if __name__ == "__main__":
    main()
