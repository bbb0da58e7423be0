"""Checkpoints of runs that train side by side.

Each run has a folder with its newest states: safetensors files, named after the step. A file's
header has the state as JSON, in which a number stands for each tensor, and a hash. A file is
written under another name, flushed to the disk and renamed. If the newest file is damaged, the
previous file is used.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from subtune.core.files import CHECKPOINTS_KEPT, flush
from subtune.core.process import StoppedError

# Raise the number if a state's contents change. Files with another ending are ignored.
ENDING = ".10.safetensors"
# The key of a tensor's number in a state's JSON.
TENSOR = "tensor:"
# Everything that a run needs to continue after a ``step``: tensors, arrays, and values for JSON.
# Tuples are read as lists, arrays as tensors.
State = dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """The folder and the schedule of a sweep's checkpoints.

    Attributes:
        folder: the folder of the sweep; each run has a folder in it.
        seconds: the maximum time between two checkpoints; 0: one checkpoint per step.
        stopping: a function that returns the reason to stop training now, or None.
    """

    folder: Path
    seconds: float
    stopping: Callable[[], str | None] = lambda: None

    def groups(self, runs: Iterable[str]) -> list[list[str]]:
        """Group runs by the step of their newest checkpoint; runs without one are a group."""
        by_step: dict[str | None, list[str]] = {}
        for run in runs:
            newest = next((path.name for path in newest_first(self.folder / run)), None)
            by_step.setdefault(newest, []).append(run)
        return list(by_step.values())

    def clear(self) -> None:
        """Remove all checkpoints, once every run of the sweep is recorded."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Keeper:
    """The checkpoints of runs that train side by side.

    If a checkpoint cannot be written, training continues without it.

    Attributes:
        checkpoints: the folder and the schedule.
        runs: ids of the runs, in order.
        report: a function that gets a line about checkpoints that are damaged or not written.
    """

    checkpoints: Checkpoints
    runs: Sequence[str]
    report: Callable[[str], None]

    def __post_init__(self):
        self._folders = [self.checkpoints.folder / run for run in self.runs]
        self._last = time.monotonic()

    def newest(self) -> list[State] | None:
        """Return the newest undamaged state of each run, all after the same step."""
        for path in newest_first(self._folders[0]):
            states = [read_state(folder / path.name) for folder in self._folders]
            undamaged = [state for state in states if state is not None]
            if len(undamaged) == len(states):
                return undamaged
            folder = self.checkpoints.folder
            self.report(f"a checkpoint {path.name} in {folder} is damaged, and ignored")
        return None

    def keep(self, take: Callable[[], Sequence[State]]) -> None:
        """Write the states that ``take`` returns, if a checkpoint is due.

        Raises:
            StoppedError: training must stop; the states are written first, if possible.
        """
        why = self.checkpoints.stopping()
        age = time.monotonic() - self._last
        if not why and age < self.checkpoints.seconds:
            return
        written = self.write(take())
        self._last = time.monotonic()
        if why:
            start = "here" if written else "an older checkpoint"
            raise StoppedError(f"stopped by {why}: the next attempt continues from {start}")

    def clear(self) -> None:
        """Remove the runs' checkpoints, once the runs are recorded."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, states: Sequence[State]) -> bool:
        """Write the runs' states; return whether they could be written."""
        try:
            for folder, state in zip(self._folders, states, strict=True):
                write_state(folder, state)
        except (OSError, SafetensorError) as error:
            self.report(f"no checkpoint could be written to {self.checkpoints.folder}: {error}")
            return False
        return True


def write_state(folder: Path, state: State) -> None:
    """Write a run's state completely or not at all, and remove older states from its folder."""
    tensors: dict[str, Tensor] = {}

    def numbered(values: Tensor | np.ndarray) -> dict[str, str]:
        number = str(len(tensors))
        tensors[number] = torch.as_tensor(values).detach().cpu().contiguous()
        return {TENSOR: number}

    facts = json.dumps(state, default=numbered)
    header = {"facts": facts, "hash": _hash(tensors, facts)}
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / uuid4().hex
    try:
        safetensors.torch.save_file(tensors, draft, header)
        flush(draft)
        draft.rename(folder / f"{state['step']:012d}{ENDING}")
        flush(folder)
    finally:
        draft.unlink(missing_ok=True)
    for path in newest_first(folder)[CHECKPOINTS_KEPT:]:
        path.unlink(missing_ok=True)


def read_state(path: Path) -> State | None:
    """Return a run's state, or None if its file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
        tensors = safetensors.torch.load_file(path)
    except (OSError, SafetensorError):
        return None
    facts = header.get("facts", "")
    if header.get("hash") != _hash(tensors, facts):
        return None
    return json.loads(facts, object_hook=lambda of: tensors[of[TENSOR]] if TENSOR in of else of)


def newest_first(folder: Path) -> list[Path]:
    """Return a run's checkpoints, the newest first."""
    return sorted(folder.glob(f"*{ENDING}"), reverse=True)


def _hash(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
