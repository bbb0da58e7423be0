"""Processor seconds and memory of many records, many tasks and many training rows.

    python -m benchmarks.load

Writes ``load.json``, ``load.md`` and ``load.png`` to ``results/benchmarks``. Every step is a
process of its own. Only processor seconds are counted, so other programs may run meanwhile.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import datasets
import matplotlib.pyplot as plt
import pandas as pd
import yaml

from benchmarks.inputs import BATCH, MINILM, members
from subtune import config as subtune_config
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.models.loading import load_model
from subtune.planning.plan import Plan, plan
from subtune.runs import records
from subtune.runs.records import CHECKSUMS
from subtune.specs.runs import RunSpec
from subtune.tasks.examples import Examples
from subtune.training.recipe import train

ROOT = Path(__file__).parent.parent
SUBTUNE = [sys.executable, str(Path(sys.executable).parent / "subtune")]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "-c1", "--snakefile", str(ROOT / "Snakefile")]
SIZES = {
    "records": (100, 1_000, 10_000),
    "tasks": (10, 100, 500),
    "rows": (1_000, 10_000, 100_000, 1_000_000),
}
WORDS_OF_A_SENTENCE = 20
LABELS = ("sad", "happy")
FEW_STEPS = 4
FISHER_ROWS = 64
# The largest steps of a panel.
LINES = 7
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^v<>"
MEGABYTES = (40, 2500)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=SIZES,
        default=[*SIZES],
        help="the others stay as --to has them",
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="of each part; default: as documented")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    path = options.to / "load.json"
    measured = json.loads(path.read_text()) if path.exists() else {}
    try:
        for part in options.parts:
            measured[part] = measure(part, options.sizes or SIZES[part])
            # Measurements stay if a later part is interrupted.
            path.write_text(json.dumps(measured, indent=2) + "\n")
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")
    tables = {part: pd.DataFrame(measured[part]) for part in SIZES if part in measured}
    text = markdown(tables)
    (options.to / "load.md").write_text(text)
    plot(tables, options.to / "load.png")
    print(text)


def measure(part: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Measure, by size and step, the processor's ``seconds`` and the maximum ``megabytes``."""
    steps = {"records": _records, "tasks": _tasks, "rows": _rows}[part]
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            print(f"measuring: {size:,} {part}", flush=True)
            lines = steps(Path(folder) / f"{part}-{size}", size)
            measured += [{"size": size} | line for line in lines]
    return measured


def _records(folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """Measure ``size`` records of ten tasks, two methods, five seeds and many learning rates."""
    rates = [1e-4 * (number + 1) for number in range(max(1, size // 100))]
    project = _Project(folder, tasks=10, methods=["full", "bitfit"], rates=rates, seeds=5)
    project.write_records()
    results = ["--results", project.config["results"]]
    yield from project.call("subtune runs", [*SUBTUNE, "runs", *results])
    yield from project.call("subtune runs --json", [*SUBTUNE, "runs", "--json", *results])
    yield from project.call("subtune verify", [*SUBTUNE, "verify", *results])
    yield from project.snakemake("snakemake -n", "-n")
    yield from project.snakemake("snakemake")


def _tasks(folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """Measure one experiment of three methods on ``size`` tasks."""
    project = _Project(folder, tasks=size, methods=["full", "bitfit", "layernorm"])
    yield from project.call("subtune check", [*SUBTUNE, "check", project.configuration])
    yield from project.call("subtune plan", [*SUBTUNE, "plan", project.configuration])
    yield from project.snakemake("snakemake -n", "-n")
    project.write_records()
    yield from project.snakemake("snakemake")


def _rows(folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """One task with so many training rows, its Fisher information over few of them, and few steps
    of an epoch over all."""
    project = _Project(folder, tasks=1, methods=["bitfit"], rows=size)
    [fisher] = project.plan.fishers
    yield from project.call("subtune check", [*SUBTUNE, "check", project.configuration])
    yield from project.snakemake("snakemake", project.layout.fisher_sums(fisher))
    first_steps = f"from benchmarks.load import first_steps; first_steps({project.configuration!r})"
    yield from project.call(f"{FEW_STEPS} training steps", [sys.executable, "-c", first_steps])


def first_steps(configuration: str) -> None:
    """Train a configuration's first run for a few steps of its first epoch."""
    checked = subtune_config.read(Path(configuration))
    planned, layout = plan(checked), Layout(checked.results)
    spec = next(iter(planned.runs.values())).run
    task = spec.tokens.data.task
    tokens = datasets.load_from_disk(layout.tokens(spec.tokens.key))
    model = load_model(
        Path(layout.model(spec.model.id)), task.of_kind.head, task.outputs, spec.model.pooling
    )
    examples = {split: Examples(tokens[split], model.reads) for split in task.labelled}
    [member] = members(model, (1e-3,), 1, "bitfit")
    few = member.recipe.replaced(train_rows=FEW_STEPS * BATCH)
    train(model, examples, task, [replace(member, recipe=few)])


class _Project:
    """A configuration with tasks of its own, in a directory."""

    def __init__(
        self,
        folder: Path,
        tasks: int,
        methods: list[str],
        rates: list[float] | None = None,
        seeds: int = 1,
        rows: int = 20,
    ):
        folder.mkdir()
        self._folder = folder
        self._usage = folder / "usage.jsonl"
        self.configuration = str(folder / "config.yaml")
        names = [f"task-{number}" for number in range(tasks)]
        experiment = {
            "models": ["minilm"],
            "tasks": names,
            "methods": dict.fromkeys(methods, rates or [1e-3]),
            "seeds": list(range(seeds)),
            "epochs": 1,
            "batch_size": BATCH,
            "fisher_rows": FISHER_ROWS,
        }
        self.config: dict[str, Any] = {
            "results": str(folder / "results"),
            "source": "builtin",
            "models": {"minilm": {"package": MINILM}},
            "tasks": {name: _own_task(folder, name, rows) for name in names},
            "experiments": {"mine": experiment},
        }
        Path(self.configuration).write_text(yaml.safe_dump(self.config, sort_keys=False))
        self.layout = Layout(self.config["results"])

    @property
    def plan(self) -> Plan:
        return plan(subtune_config.check(self.config))

    def write_records(self) -> None:
        """Write the records of all runs, each with the results of another run."""
        planned, layout = self.plan, self.layout
        template = _trained_record(self._folder / "template")
        # Snakemake asks only whether they are there.
        made = [layout.model(model) for model in planned.models]
        made += [layout.dataset(dataset) for dataset in planned.datasets]
        made += [layout.tokens(tokens) for tokens in planned.tokens]
        for directory in made:
            Path(directory).mkdir(parents=True)
        for of in planned.runs.values():
            write_record(Path(layout.records()), of.run, template)
        for key, sweep in planned.sweeps.items():
            path = Path(layout.sweep(key))
            path.parent.mkdir(exist_ok=True)
            pd.DataFrame({"key": sweep.runs, "run": sweep.runs}).to_csv(path, index=False)

    def snakemake(self, step: str, *arguments: str) -> Iterator[dict[str, Any]]:
        """Return the use of Snakemake itself, and of each rule's jobs together."""
        place = ["--configfile", self.configuration, "--directory", str(self._folder)]
        yield from self.call(step, [*SNAKEMAKE, *place, *arguments])

    def call(self, step: str, command: list[str]) -> Iterator[dict[str, Any]]:
        """Return the seconds and megabytes of a command's processes, added up by step."""
        usage = self._folder / "usage.jsonl"
        usage.unlink(missing_ok=True)
        folders = [ROOT / "benchmarks" / "usage", ROOT, ROOT / "src"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "USAGE": str(usage),
            "STEP": step,
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SubtuneError(f"{step}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        processes = pd.read_json(usage, lines=True).groupby("step", sort=False)
        together = processes.agg({"seconds": "sum", "megabytes": "max"})
        yield from together.reset_index().to_dict("records")


def _own_task(folder: Path, name: str, rows: int) -> dict[str, Any]:
    """Write the files of a user's task; return its settings."""
    files = {split: str(folder / f"{name}-{split}.csv") for split in ("train", "validation")}
    for split, path in files.items():
        with Path(path).open("w") as file:
            file.writelines(_lines(f"{name} {split}", rows if split == "train" else 20))
    return {
        "files": files,
        "text": ["text"],
        "labels": list(LABELS),
        "metrics": ["accuracy"],
        "title": name,
    }


def _lines(seed: str, rows: int) -> Iterator[str]:
    """Return sentences of invented words, under a header."""
    generator = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(generator.choices(syllables, k=1 + number % 3)) for number in range(2000)]
    yield "text,label\n"
    for number in range(rows):
        text = " ".join(generator.choices(words, k=WORDS_OF_A_SENTENCE))
        yield f"{text},{LABELS[number % len(LABELS)]}\n"


def _trained_record(folder: Path) -> Path:
    """Return a record of a run that was trained."""
    project = _Project(folder, tasks=1, methods=["bitfit"])
    [sweep] = project.plan.sweeps
    list(project.snakemake("snakemake", project.layout.sweep(sweep)))
    [record] = Path(project.layout.records()).iterdir()
    return record


def write_record(store: Path, spec: RunSpec, template: Path) -> None:
    """Record a run with the results of another run."""

    def link(folder: Path) -> None:
        for path in template.iterdir():
            if path.name not in ("spec.json", CHECKSUMS):
                (folder / path.name).hardlink_to(path)

    records.write(store, spec, link)


def markdown(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return a table for each part: one row per step, with seconds and megabytes by size."""
    parts = []
    for part, measured in tables.items():
        seconds = measured["seconds"].map("{:.1f} s, ".format)
        cells = measured.assign(cell=seconds + measured["megabytes"].map("{:,.0f} MB".format))
        table = cells.pivot_table("cell", "step", "size", aggfunc="first", sort=False)
        table.columns = [f"{size:,} {part}" for size in table.columns]
        parts.append(table.to_markdown(disable_numparse=True))
    return "\n\n".join(parts) + "\n"


def plot(tables: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Plot seconds and megabytes by size, for the steps that take the most."""
    width = 4.5 * len(tables)
    figure, panels = plt.subplots(
        2, len(tables), figsize=(width, 8.5), layout="constrained", squeeze=False
    )
    for (part, measured), (above, below) in zip(tables.items(), panels.T, strict=True):
        steps = measured.groupby("step")["seconds"].max().nlargest(LINES).index
        for number, step in enumerate(steps):
            rows = measured[measured["step"] == step].sort_values("size")
            style = {"color": COLOURS[number], "marker": MARKERS[number], "label": step}
            above.plot(rows["size"], rows["seconds"], **style)
            below.plot(rows["size"], rows["megabytes"], **style)
        for panel, unit in ((above, "processor seconds"), (below, "megabytes, at most")):
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel(part)
            panel.set_ylabel(unit)
            panel.grid(color="0.9")
        below.set_ylim(MEGABYTES)
        above.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
