"""Copy the workflow, and run it as a user does."""

import copy
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
SNAKEMAKE = [sys.executable, "-m", "snakemake"]
# A task may have the same name as a mask scope.
TASK = "global"
# Runs all jobs of mine.yaml in one process, which imports each library once.
RUN_ALL_JOBS = """
from pathlib import Path
from subtune.config import parse_yaml
from subtune.steps.jobs import run_job
from subtune.steps.plan_file import write_plan
for jobs in write_plan(parse_yaml(Path("mine.yaml"))).jobs.values():
    for job in jobs.values():
        run_job(job)
"""


class Project:
    """A copy of the workflow in its own directory, with a tiny model and a tiny task.

    If the directory already has the workflow, it is used without changes.
    """

    def __init__(self, directory: Path, model: Path):
        self.directory = directory
        # For every call: environment variables, the beginning of the command, and Snakemake.
        self.environment: dict[str, str] = {}
        self.before: list[str] = []
        self.snakemake: list[str | Path] = [*SNAKEMAKE]
        if not (directory / "Snakefile").exists():
            copy_workflow(directory)
            for split, rows in (("train", 24), ("validation", 12)):
                (directory / f"{TASK}-{split}.csv").write_text(table(TASK, split, rows))
        self.config = {
            "results": "results",
            "source": "builtin",
            "models": {"tiny": {"path": str(model)}},
            "tasks": {
                TASK: {
                    "files": {split: f"{TASK}-{split}.csv" for split in ("train", "validation")},
                    "text": ["text"],
                    "labels": ["sad", "happy"],
                    "metrics": ["accuracy"],
                }
            },
            "experiments": {
                "layernorm": {
                    "models": ["tiny"],
                    "tasks": [TASK],
                    "methods": {"full": [1e-3], "bitfit": [1e-2], "layernorm": [1e-2]},
                    "fractions": {"values": [0.25]},
                    "epochs": 2,
                    "batch_size": 8,
                    "max_length": 16,
                }
            },
        }

    def copy(self, directory: Path) -> "Project":
        """Copy this project with all its files to another directory."""
        copied = copy.copy(self)
        copied.directory = directory
        shutil.copytree(self.directory, directory)
        return copied

    def changed(self, **experiment) -> dict:
        """Return a copy of the configuration with other settings of its experiment."""
        config = copy.deepcopy(self.config)
        config["experiments"]["layernorm"].update(experiment)
        return config

    def run(self, config: dict, *arguments: str) -> str:
        """Run snakemake as a user does; return its output."""
        self.write(config)
        command = [*self.before, *self.snakemake, "-c2", "--configfile", "mine.yaml", *arguments]
        return printed(command, self.directory, **self.environment)

    def run_in_one_process(self, config: dict) -> None:
        """Run all jobs without Snakemake, which would import all libraries again in each job."""
        self.write(config)
        printed([sys.executable, "-c", RUN_ALL_JOBS], self.directory, **self.environment)

    def write(self, config: dict) -> None:
        (self.directory / "mine.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def planned(self, config: dict) -> dict[str, int]:
        """Return the number of planned jobs by rule, without the target rule."""
        counts = job_counts(self.run(config, "-n"))
        return {rule: count for rule, count in counts.items() if rule not in ("all", "total")}

    def records(self) -> dict[str, int]:
        """Return the time in ns at which each record was written, by run id."""
        store = self.directory / "results" / "runs"
        return {path.name: path.stat().st_mtime_ns for path in store.iterdir()}


# CoLA test scores of each method from the GLUE server, in percent.
RETURNED = {"full": 20.0, "bitfit": 12.5, "layernorm": 0.0}
# Rows per split. The GLUE server expects this number of test rows.
COLA_ROWS = {"train": 24, "dev": 12, "test": 1063}


def with_glue(project: Project) -> Project:
    """Add CoLA in the official file format, and a file of test scores from the GLUE server."""
    project.config |= {"source": "tsv", "glue_dir": ".", "test_scores": "returned.csv"}
    project.config["experiments"]["layernorm"]["tasks"] = [TASK, "cola"]
    folder = project.directory / "CoLA"
    if not folder.exists():
        folder.mkdir()
        for split, count in COLA_ROWS.items():
            rows = [line.split(",") for line in table("cola", split, count).splitlines()[1:]]
            lines = [f"s\t{int(label == 'happy')}\t\t{text}" for text, label in rows]
            if split == "test":
                lines = [
                    "index\tsentence",
                    *(f"{number}\t{row[0]}" for number, row in enumerate(rows)),
                ]
            (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
        about = "layernorm,tiny,{},cola,{},100"
        returned = [about.format(*score) for score in RETURNED.items()]
        head = "experiment,model,method,task,value,scale"
        (project.directory / "returned.csv").write_text("\n".join([head, *returned]) + "\n")
    return project


def printed(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a command; return its output. Fail if the command fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return a directory that ``build`` fills once per test run.

    All workers share it, so tests only read it or copy it.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    directory, done = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            build(directory)
            done.touch()
    return directory


def copy_workflow(directory: Path) -> Path:
    """Copy all files that snakemake reads to a directory."""
    directory.mkdir(exist_ok=True)
    for name in ("Snakefile", "workflow", "envs", "config.yaml", "demo", "profiles", "slurm"):
        source = ROOT / name
        copy_of = shutil.copytree if source.is_dir() else shutil.copy
        copy_of(source, directory / name)
    return directory


def job_counts(printed: str) -> dict[str, int]:
    """Read the number of jobs by rule, and their total, from the output of a dry run."""
    counts = re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE)
    return {rule: int(count) for rule, count in counts}


def table(task: str, split: str, rows: int) -> str:
    """Return the text of a CSV file with random sentences. The last word is the label."""
    rng = random.Random(f"{task}/{split}")
    words = ["film", "story", "dog", "cat", "runs", "sleeps", "sings"]
    lines = ["text,label"]
    for _ in range(rows):
        label = rng.choice(("sad", "happy"))
        lines.append(f"the {rng.choice(words)} is {rng.choice(words)} and {label},{label}")
    return "\n".join(lines) + "\n"
