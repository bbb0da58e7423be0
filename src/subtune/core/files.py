"""Paths in a results directory, atomic writing of files, and hashes of files."""

import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EEXIST, ENOTEMPTY
from functools import cache, partialmethod
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from safetensors import SafetensorError

from subtune.core.errors import SubtuneError, error_reason, join_names

# The age, in seconds, at which the temporary files of killed processes are removed.
SECONDS_OF_DRAFTS = 24 * 3600
# Each run keeps its two newest checkpoints.
CHECKPOINTS_KEPT = 2


@dataclass(frozen=True)
class Layout:
    """The paths of all files in a results directory.

    Paths are strings, so that they may contain Snakemake's wildcards. The arguments of the methods
    are the keys and ids of a plan, or the name of an experiment.
    """

    results: str

    def _path(self, pattern: str, *parts: str) -> str:
        return f"{self.results}/{pattern.format(*parts)}"

    # The inputs of runs. `pinned_commits` pins branches and tags on the hub to commits.
    dataset = partialmethod(_path, "datasets/{}")
    tokens = partialmethod(_path, "tokens/{}")
    model = partialmethod(_path, "models/{}")
    hub_cache = partialmethod(_path, "hub")
    pinned_commits = partialmethod(_path, "pinned.json")
    fisher_prefix = partialmethod(_path, "fisher/{}")
    fisher_entries = partialmethod(_path, "fisher/{}.safetensors")
    fisher_sums = partialmethod(_path, "fisher/{}.csv")
    gradient = partialmethod(_path, "gradients/{}.safetensors")
    mask_prefix = partialmethod(_path, "masks/{}")
    mask = partialmethod(_path, "masks/{}.safetensors")
    code_of_mask = partialmethod(_path, "masks/{}.py")

    # The rows of a task that a user passed to `compare` in memory; the rows that are written when a
    # dev set is drawn; and a sample of a user's table.
    tables = partialmethod(_path, "table-{}")
    split_tables = partialmethod(_path, "rows")
    sample = partialmethod(_path, "sample")
    # Predictions passed to `compare` or `init`: for the scored rows, and for all rows, from which
    # later calls sample.
    predictions = partialmethod(_path, "predictions")
    given_predictions = partialmethod(_path, "predictions/given")
    # The file that `compare` locks while it runs.
    lock = partialmethod(_path, ".lock")

    # Records, and one directory of checkpoints for each unfinished run. The outputs of sweeps and
    # searches list the runs that they trained.
    records = partialmethod(_path, "runs")
    checkpoints = partialmethod(_path, "checkpoints")
    sweep = partialmethod(_path, "sweeps/{}.csv")
    searches = partialmethod(_path, "searches/{}.json")

    table_of_runs = partialmethod(_path, "runs.csv")
    columns_of_runs = partialmethod(_path, "runs_columns.csv")
    data = partialmethod(_path, "data/{}/{}.parquet")
    test_predictions = partialmethod(_path, "data/{}/test/{}.parquet")
    exhibits = partialmethod(_path, "experiments/{}")
    submission = partialmethod(_path, "submission/{}")
    summary = partialmethod(_path, "{}.{}")
    report = partialmethod(_path, "report.html")

    def log(self, *parts: str) -> str:
        return f"{self.results}/logs/{'/'.join(parts)}.log"

    def benchmark(self, *parts: str) -> str:
        """Return the file in which Snakemake stores the duration of a job."""
        return f"{self.results}/benchmarks/{'/'.join(parts)}.tsv"


def find_results(named: Path | None) -> Path:
    """Return ``named``, by default ``results`` or its only subdirectory that has records.

    A `SubtuneError` is raised if ``results`` has no records but several of its subdirectories do.
    """
    default = Path("results")
    below = [path.parent for path in sorted(default.glob("*/runs")) if path.is_dir()]
    if named or (default / "runs").is_dir() or not below:
        return named or default
    if len(below) > 1:
        places = join_names(map(str, below))
        raise SubtuneError(f"--results: missing, expected one of the directories {places}")
    return below[0]


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a hidden directory. Rename it to ``target`` at the end, or remove it after an error."""
    require_new(target)
    draft = _make_draft_path(target)
    try:
        draft.mkdir(parents=True)
        yield draft
        _flush_all(draft)
        draft.rename(target)
        flush_to_disk(target.parent)
    except (OSError, SafetensorError) as error:
        raise SubtuneError(f"cannot write {target}: {error_reason(error)}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def require_new(target: Path) -> None:
    """Raise a `SubtuneError` if a file or directory with this path exists."""
    if target.exists():
        raise SubtuneError(f"{target}: already exists; move it away or choose another path")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically (`write_atomically`), and create its directory."""
    with write_atomically({"text": str(path)}) as drafts:
        Path(drafts["text"]).write_text(text, encoding="utf-8")


@contextmanager
def write_atomically(outputs: Mapping[str, str | list[str]]) -> Iterator[Any]:
    """Yield a hidden path (a draft) for each output, and move the drafts to the outputs at the end.

    A draft has the suffix of its output, because the suffix selects the format of a table or
    figure. If two processes write the same output, the last one wins.
    """
    renamed: dict[Path, Path] = {}

    def make_draft(output: str) -> str:
        target = Path(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        renamed[target] = _make_draft_path(target)
        return str(renamed[target])

    try:
        yield {
            name: make_draft(paths) if isinstance(paths, str) else [*map(make_draft, paths)]
            for name, paths in outputs.items()
        }
        for draft in renamed.values():
            _flush_all(draft)
        for target, draft in renamed.items():
            _move_draft(draft, target)
    finally:
        for draft in renamed.values():
            _remove_path(draft)


def _move_draft(draft: Path, target: Path) -> None:
    """Rename a draft to its target. Another process may do the same at any time."""
    while True:
        # A directory cannot replace a file, nor a directory that contains files.
        if draft.is_dir() or target.is_dir():
            with suppress(FileNotFoundError):
                _remove_path(target.rename(_make_draft_path(target)))
        try:
            draft.replace(target)
            return
        except OSError as error:
            if error.errno not in (ENOTEMPTY, EEXIST):
                raise


def remove_old_drafts(results: Path) -> None:
    """Remove the drafts of killed processes: those that have not changed for `SECONDS_OF_DRAFTS`.

    A younger draft may belong to a running process, perhaps on another machine.
    """
    for below in ("", "*/", "data/*/", "data/*/test/"):
        for draft in results.glob(f"{below}.{'[0-9a-f]' * 32}.*"):
            # Another process may remove the same draft.
            with suppress(OSError):
                changed = max(part.lstat().st_mtime for part in (draft, *draft.rglob("*")))
                if changed < time.time() - SECONDS_OF_DRAFTS:
                    _remove_path(draft)


def keep_comparisons_away(results: str) -> None:
    """Lock ``results`` until this process ends; raise a `SubtuneError` if `compare` runs there."""
    # Without permission, or on a file system without locks, `compare` does not start.
    with suppress(OSError):
        file = os.open(Layout(results).lock(), os.O_RDONLY | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SubtuneError(
                f"results: `subtune compare` is running in {results}; run this command again later"
            ) from None


def _make_draft_path(target: Path) -> Path:
    """Return a new hidden path in the same directory and with the same suffix as ``target``."""
    # A process id would not be unique, because processes on other nodes may have the same id.
    return target.with_name(f".{uuid4().hex}.{target.name}")


def _remove_path(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _flush_all(path: Path) -> None:
    for part in (*path.rglob("*"), path):
        flush_to_disk(part)


def flush_to_disk(path: Path) -> None:
    """Flush a file or the entries of a directory to disk, and give files the mode of new files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        # safetensors writes files that only their owner can read.
        if os.fstat(handle).st_mode == stat.S_IFREG | 0o600:
            new = _make_draft_path(path)
            new.touch()
            os.fchmod(handle, stat.S_IMODE(new.stat().st_mode))
            new.unlink()
    finally:
        os.close(handle)


def hash_text(text: str) -> str:
    """Return the first 12 hexadecimal digits of a text's SHA-256 hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def hash_bytes(content: bytes) -> str:
    """Return the BLAKE2b hash of the content of a file."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def hash_files(*paths: Path) -> str:
    """Hash the contents of several files in the given order. Their paths do not affect the hash."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        about = path.stat()
        digest.update(_digest_file(path, about.st_size, about.st_mtime_ns))
    return digest.hexdigest()


@cache
def _digest_file(path: Path, size: int, changed: int) -> bytes:
    """Compute the digest of a file; size and modification time are keys of the cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def read_package_text(package: str, name: str) -> str:
    """Read a text file of an installed package."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


@cache
def read_package_yaml(package: str, name: str) -> Any:
    """Read and parse a YAML file of an installed package."""
    # The loader of libyaml, if it is installed, is ten times as fast as the loader in Python.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(read_package_text(package, name), loader)
