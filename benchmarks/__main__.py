"""Run benchmarks on this machine's GPU, or on its CPU.

    make bench GLUE_DIR=/path/to/glue

Each part writes its measurements to ``results/benchmarks/PART.jsonl`` as soon as they are made.
`benchmarks.report` makes ``benchmarks.md`` and ``steps.png`` from these files.
"""

import argparse
import datetime
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers.utils import logging

from benchmarks import fisher, inputs, kernels, methods, report, scaling, sweeps, values
from benchmarks.measurements import measure_products, write_lines
from subtune.core.errors import SubtuneError
from subtune.core.process import device_name, keep_freed_memory
from subtune.data.sources import official_files
from subtune.tasks import TASKS

USUAL_PARTS = ("machine", "products", "fisher", "profile", "scaling", "sweeps")
OTHER_PARTS = ("kernels", "methods", "values")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=[*USUAL_PARTS, *OTHER_PARTS],
        default=USUAL_PARTS,
        help=f"measure only these (default: {' '.join(USUAL_PARTS)}); keep the others in --to",
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--rows", type=int, help="use the first ROWS examples of each split (default: all)"
    )
    parser.add_argument("--tasks", nargs="+", choices=fisher.ROWS, default=[*fisher.ROWS])
    parser.add_argument("--models", nargs="+", choices=scaling.SHAPES, default=[*scaling.SHAPES])
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="start no new scaling cell after SECONDS"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    options.to.mkdir(parents=True, exist_ok=True)
    try:
        for task in options.tasks:
            # Report missing files before the first measurement.
            official_files(str(options.glue_dir), TASKS[task], "tsv")
        for part in options.parts:
            print(f"measuring: {part}", flush=True)
            write_lines(options.to / f"{part}.jsonl", _measure(part, options))
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")
    print(report.write_report([options.to], options.to))


def _measure(part: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    glue, tasks, rows = options.glue_dir, options.tasks, options.rows
    match part:
        case "machine":
            yield _describe_machine(options.threads)
        case "products":
            yield from measure_products()
        case "fisher":
            yield from fisher.measure(glue, tasks, rows)
        case "profile":
            yield from kernels.measure_shares(glue, tasks)
        case "scaling":
            cells = scaling.cells_of_device(options.models, tasks)
            yield from scaling.measure(glue, cells, rows, options.seconds)
        case "sweeps":
            yield from sweeps.measure(glue, tasks, options.epochs, rows)
        case "kernels":
            yield from kernels.measure(glue, options.models, tasks, rows)
        case "methods":
            yield from methods.measure(glue)
        case "values":
            yield from values.measure(glue, tasks)


def _describe_machine(threads: int) -> dict[str, Any]:
    """Describe the GPU, or the CPU and its bfloat16 instructions."""
    name = device_name(torch.device(inputs.device()))
    flags = Path("/proc/cpuinfo")
    if inputs.device() == "cpu" and flags.is_file() and "avx512_bf16" in flags.read_text():
        name += ", AVX512-BF16"
    return {
        "device": name,
        "threads": threads,
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


if __name__ == "__main__":
    main()
