"""Paths: below a results directory, of the package's data, and of the workflow's files.

Directories are written completely or not at all.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from glob import escape
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from safetensors import SafetensorError

from subtune.core.errors import SubtuneError, reason_of

SECONDS_OF_DRAFTS = 24 * 3600
TABLE_ENDINGS, FIGURE_ENDINGS = ("csv", "md", "tex"), ("png", "pdf")


@dataclass(frozen=True)
class Layout:
    """Paths as text, so that they may contain Snakemake's wildcards.

    ``experiment`` is an experiment's name; the other arguments are keys and ids of a plan.
    """

    results: str

    def dataset(self, dataset: str) -> str:
        return f"{self.results}/datasets/{dataset}"

    def tokens(self, tokens: str) -> str:
        return f"{self.results}/tokens/{tokens}"

    def model(self, model: str) -> str:
        return f"{self.results}/models/{model}"

    def hub_cache(self) -> str:
        return f"{self.results}/hub"

    def pinned(self) -> str:
        """Return the file with the commits of the hub's branches and tags."""
        return f"{self.results}/pinned.json"

    def lock(self) -> str:
        """Return the file that `compare` holds locked while it runs."""
        return f"{self.results}/.lock"

    def spec(self, kind: str, name: str) -> str:
        """Return the file with the spec of a stage with a name as id."""
        return f"{self.results}/plans/{kind}/{name}.json"

    def fisher_entries(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.safetensors"

    def fisher_sums(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.csv"

    def ranking(self, ranking: str) -> str:
        return f"{self.results}/masks/{ranking}.safetensors"

    def searches(self, job: str) -> str:
        """Return the file of a job's searches: what each found, and every rate that it tried."""
        return f"{self.results}/searches/{job}.json"

    def records(self) -> str:
        return f"{self.results}/runs"

    def damaged(self) -> str:
        """Return the directory of records that were set aside."""
        return f"{self.results}/damaged"

    def repair(self, sweep: str) -> str:
        """Return the empty file that makes a sweep train again after a record was set aside."""
        return f"{self.results}/repairs/{sweep}"

    def sweep(self, sweep: str) -> str:
        return f"{self.results}/sweeps/{sweep}.csv"

    def checkpoints(self, sweep: str) -> str:
        return f"{self.results}/checkpoints/{sweep}"

    def train_scores(self, sweep: str) -> str:
        return f"{self.results}/train_scores/{sweep}.csv"

    def table_of_runs(self, ending: str) -> str:
        return f"{self.results}/runs.{ending}"

    def columns_of_runs(self) -> str:
        return f"{self.results}/runs_columns.csv"

    def report(self) -> str:
        return f"{self.results}/report.html"

    def log(self, *parts: str) -> str:
        return f"{self.results}/logs/{'/'.join(parts)}.log"

    def benchmark(self, *parts: str) -> str:
        """Return the file in which Snakemake writes how long a job took."""
        return f"{self.results}/benchmarks/{'/'.join(parts)}.tsv"

    def data(self, experiment: str, name: str) -> str:
        # Readers open the printed scores, so their table is in their figure's directory.
        inner = "" if name == "reproduction" else "data/"
        return f"{self.results}/experiments/{experiment}/{inner}{name}.csv"

    def test_predictions(self, experiment: str, model: str) -> str:
        return f"{self.results}/experiments/{experiment}/data/test/{model}.parquet"

    def refit(self, experiment: str, model: str, task: str, method: str) -> str:
        """Return the table with the run that trained once more on the rows of all folds."""
        return f"{self.results}/experiments/{experiment}/data/refit/{model}/{task}/{method}.csv"

    def exhibit(self, experiment: str, name: str, ending: str) -> str:
        return f"{self.results}/experiments/{experiment}/{name}.{ending}"

    def summary(self, name: str, ending: str) -> str:
        return f"{self.results}/{name}.{ending}"

    def submission(self, experiment: str, name: str) -> str:
        return f"{self.results}/experiments/{experiment}/submission/{name}.zip"


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a hidden directory to write into.

    The directory is renamed to ``target`` once it is on the disk, and removed after an error.

    Raises:
        SubtuneError: ``target`` already exists, the disk is full, or the directory cannot be
            written.
    """
    require_new(target)
    # A process on another node may have the same process id.
    draft = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        yield draft
        _flush_all(draft)
        draft.rename(target)
        flush(target.parent)
    except (OSError, SafetensorError) as error:
        raise SubtuneError(f"cannot write {target}: {reason_of(error)}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def require_new(target: Path) -> None:
    """Raise a `SubtuneError` if something has this name."""
    if target.exists():
        raise SubtuneError(f"{target} is there already; move it away or name another place")


@contextmanager
def drafts(outputs: Mapping[str, str | list[str]]) -> Iterator[Any]:
    """Yield a hidden path for each output, and rename all of them once they are on the disk.

    A draft keeps its output's suffix, which decides the format of a table or figure. Drafts that a
    killed process has left are removed after a day: a younger one may be another process's.
    """
    renamed: dict[Path, Path] = {}

    def draft_of(output: str) -> str:
        target = Path(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        for draft in target.parent.glob(f".{'[0-9a-f]' * 32}.{escape(target.name)}"):
            with suppress(FileNotFoundError):
                if draft.stat().st_mtime < time.time() - SECONDS_OF_DRAFTS:
                    _remove(draft)
        # A process on another node may have the same process id.
        renamed[target] = target.with_name(f".{uuid4().hex}.{target.name}")
        return str(renamed[target])

    try:
        yield {
            name: draft_of(paths) if isinstance(paths, str) else [*map(draft_of, paths)]
            for name, paths in outputs.items()
        }
        for draft in renamed.values():
            _flush_all(draft)
        for target, draft in renamed.items():
            if target.is_dir():
                shutil.rmtree(target)
            draft.replace(target)
    finally:
        for draft in renamed.values():
            _remove(draft)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _flush_all(path: Path) -> None:
    """Wait until a file, or a folder and all that is in it, is on the disk."""
    for part in (*path.rglob("*"), path):
        flush(part)


def flush(path: Path) -> None:
    """Wait until a file's content, or a directory's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def path_of(package: str, name: str):
    """Return the path of a file in a package."""
    return resources.files(package) / name


@cache
def read_yaml(package: str, name: str) -> Any:
    """Return the content of a package's YAML file."""
    text = path_of(package, name).read_text(encoding="utf-8")
    # If libyaml is installed, its loader is ten times as fast.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def workflow_directory() -> Path:
    """Return the directory of the Snakefile: a clone's top, or one inside the installed package."""
    package = Path(__file__).parents[1]
    installed = package / "pipeline"
    return installed if installed.is_dir() else package.parents[1]


def snakemake_command(*arguments: str) -> list[str]:
    """Return the command that calls Snakemake with this workflow.

    Python modules and profiles in the current folder are not used.
    """
    directory = workflow_directory()
    options = [f"--snakefile={directory / 'Snakefile'}"]
    options += [f"--workflow-profile={directory / 'profiles' / 'default'}"]
    return [sys.executable, "-P", "-m", "snakemake", *options, *arguments]


def offer(folder: Path) -> None:
    """Put ``folder`` on the Python path of all later processes.

    The environments of jobs do not have subtune. Python modules in their current folder are not
    imported.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
