"""Measure everything in one run, on whatever device is there.

    make bench GLUE_DIR=/path/to/glue

Writes ``results/benchmarks/``: ``benchmarks.json``, ``benchmarks.md`` and ``benchmarks.png``.
"""

import argparse
import datetime
import json
import os
import platform
from pathlib import Path

import datasets
import torch
from transformers.utils import logging

from benchmarks import fisher, memory, products, report, scaling, sweeps
from subtune.errors import SubtuneError
from subtune.memory import keep_freed_memory

# Short sentences and long pairs.
TASKS = ["cola", "rte"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rows", type=int, help="of each training set; without it, all")
    parser.add_argument("--models", nargs="+", choices=scaling.SHAPES, default=[*scaling.SHAPES])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    try:
        _measure(options)
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")


def _measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    found = {
        "machine": {
            "device": torch.cuda.get_device_name()
            if torch.cuda.is_available()
            else platform.processor() or platform.machine(),
            "threads": options.threads,
            "torch": torch.__version__,
            "date": datetime.date.today().isoformat(),
        },
        "products": products.measure(),
        "fisher": fisher.measure(options.glue_dir, {"cola": 256, "rte": 64}),
        "sweeps": sweeps.measure(options.glue_dir, TASKS, options.epochs, options.rows),
        "scaling": scaling.measure(options.glue_dir, TASKS, options.models),
        "memory": memory.measure(options.glue_dir, TASKS),
    }
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "benchmarks.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.to / "benchmarks.md").write_text(report.markdown(found))
    report.plot(found, options.to / "benchmarks.png")
    print(report.markdown(found))


if __name__ == "__main__":
    main()
