"""Checkpoints of runs that train side by side.

A checkpoint is a safetensors file with all tensors. Its header has other facts as JSON, the ids of
the runs, and a hash. It is written under another name, flushed to the disk and renamed. The
previous checkpoint is kept, and used if the newest is damaged.
"""

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from subtune.core.content_ids import ID_LENGTH
from subtune.core.jobs import StoppedError
from subtune.core.layout import flush
from subtune.data.batches import CHECKPOINTS_KEPT

ENDING = ".safetensors"
# Raise this number if a state's contents change. Checkpoints in another format are ignored.
FORMAT = "5"
# The prefix of names of a run's own tensors, followed by the run's number.
RUN = "run."
# The share of the interval after which the end of an epoch gets a checkpoint; short epochs need
# none.
AT_AN_EPOCHS_END = 0.1


@dataclass(frozen=True)
class State:
    """Everything that training needs to continue: tensors, and facts for JSON.

    ``runs`` has each run's own state, so that some runs can continue without the others.
    """

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    runs: Sequence["State"] = ()


@dataclass(frozen=True)
class Checkpoints:
    """The folder and the schedule of a sweep's checkpoints.

    ``seconds``: the longest time between two checkpoints; 0 writes one after every step.
    ``stopping`` returns the reason to stop training now, or None.
    """

    folder: Path
    seconds: float
    stopping: Callable[[], str | None] = lambda: None

    def groups(self, runs: Iterable[str]) -> list[list[str]]:
        """Return the runs that have a checkpoint, grouped by their newest one."""
        remaining = set(runs)
        groups = []
        for path in self.newest_first():
            group = [run for run in runs_in(path) if run in remaining]
            groups += [group] if group else []
            remaining.difference_update(group)
        return groups

    def newest_first(self) -> list[Path]:
        """Return the checkpoints of all groups; those after the most steps come first."""
        paths = self.folder.glob(f"*/*{ENDING}")
        return sorted(paths, key=lambda path: path.stem, reverse=True)

    def clear(self) -> None:
        """Remove all checkpoints, once every run of the sweep is recorded."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Keeper:
    """The checkpoints of one group of runs; its state may be in a larger group's checkpoint.

    ``runs``: ids of the group's runs, in order. ``report`` gets a line if a checkpoint cannot be
    written; training continues without it.
    """

    checkpoints: Checkpoints
    runs: Sequence[str]
    report: Callable[[str], None]

    def __post_init__(self):
        name = hashlib.sha256("".join(self.runs).encode()).hexdigest()[:ID_LENGTH]
        self._folder = self.checkpoints.folder / name
        self._last = time.monotonic()

    def newest(self) -> State | None:
        """Return the newest undamaged state of these runs."""
        for path in self.checkpoints.newest_first():
            runs = runs_in(path)
            if runs and not set(runs).issuperset(self.runs):
                continue
            state = read(path)
            if state is not None:
                own_states = [state.runs[runs.index(run)] for run in self.runs]
                return State(state.tensors, state.facts, own_states)
            self.report(f"{path} is damaged or of another version, and ignored")
        return None

    def keep(self, take: Callable[[], State], epoch_ends: bool = False) -> None:
        """Write the state that ``take`` returns, if a checkpoint is due.

        Raises:
            StoppedError: training must stop; the state is written first, if possible.
        """
        why = self.checkpoints.stopping()
        age = time.monotonic() - self._last
        if not why and age < self.checkpoints.seconds * (AT_AN_EPOCHS_END if epoch_ends else 1):
            return
        written = self.write(take())
        self._last = time.monotonic()
        if why:
            start = "here" if written else "an older checkpoint"
            raise StoppedError(f"stopped by {why}: the next attempt continues from {start}")

    def clear(self) -> None:
        """Remove the group's checkpoints, once its runs are recorded."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def write(self, state: State) -> bool:
        """Write a state, completely or not at all; return whether that was possible.

        The file is named after ``state.facts["step"]``.
        """
        target = self._folder / f"{state.facts['step']:012d}{ENDING}"
        draft = self._folder / f".{target.stem}.{uuid4().hex}"
        tensors = dict(state.tensors)
        for number, run in enumerate(state.runs):
            tensors |= {f"{RUN}{number}.{name}": tensor for name, tensor in run.tensors.items()}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        facts = json.dumps([state.facts, [run.facts for run in state.runs]])
        header = {"format": FORMAT, "facts": facts, "hash": _hash(tensors, facts)}
        header["runs"] = json.dumps(list(self.runs))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            safetensors.torch.save_file(tensors, draft, header)
            flush(draft)
            draft.rename(target)
            flush(self._folder)
        except (OSError, SafetensorError) as error:
            self.report(f"no checkpoint could be written to {self._folder}: {error}")
            return False
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        for path in sorted(self._folder.glob(f"*{ENDING}"))[:-CHECKPOINTS_KEPT]:
            path.unlink(missing_ok=True)
        return True


def read(path: Path) -> State | None:
    """Return a checkpoint's state, or None if it is damaged or in another format."""
    header = _header(path)
    try:
        tensors = safetensors.torch.load_file(path)
    except (OSError, SafetensorError):
        return None
    if not header or header["hash"] != _hash(tensors, header["facts"]):
        return None
    facts, facts_of_runs = json.loads(header["facts"])
    runs = [State(below(f"{RUN}{n}.", tensors), own) for n, own in enumerate(facts_of_runs)]
    shared = {name: tensor for name, tensor in tensors.items() if not name.startswith(RUN)}
    return State(shared, facts, runs)


def runs_in(path: Path) -> list[str]:
    """Return the ids of a checkpoint's runs; none if it cannot be read."""
    return json.loads(_header(path).get("runs", "[]"))


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, under names without the prefix."""
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}


def _header(path: Path) -> dict[str, str]:
    """Return a checkpoint's header; empty if it is damaged or in another format."""
    with contextlib.suppress(OSError, SafetensorError), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        return header if header.get("format") == FORMAT else {}
    return {}


def _hash(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
