"""Checkpoints of runs that train side by side: safetensors files in the folder of each run.

A file's header contains a hash and the state as JSON, in which each tensor is replaced by its
number in the file. A file gets its final name only when it is complete and on the disk, so an
interruption leaves no incomplete checkpoint. If the newest file is damaged, the previous file is
used.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from subtune.core.files import CHECKPOINTS_KEPT, flush_to_disk
from subtune.core.process import StoppedError
from subtune.runs import records

# Increase the number in this suffix if the contents of a state change. Files with other suffixes
# are ignored.
ENDING = ".11.safetensors"
# In the JSON of a state, each tensor is replaced by an object that has its number under this key.
TENSOR = "tensor:"
# The tensors, arrays and JSON values that a run needs to continue after a step. The key ``step``
# holds the number of the step. When a state is read, tuples become lists, and arrays become
# tensors.
State = dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """The folder and the schedule of checkpoints.

    Attributes:
        folder: the folder of all checkpoints, with one subfolder per run. A run can continue from
            its checkpoint together with any other runs.
        seconds: the time after which the next checkpoint is due; 0 means one checkpoint per step.
        stop_reason: returns why training must stop now, or None if training may continue.
    """

    folder: Path
    seconds: float
    stop_reason: Callable[[], str | None] = lambda: None

    def newest_name(self, run: str) -> str | None:
        """Return the name of a run's newest checkpoint, which begins with its step, if any."""
        return next((path.name for path in newest_first(self.folder / run)), None)

    def remove_recorded(self, store: Path) -> None:
        """Remove the checkpoints that a killed job left for runs recorded in ``store``."""
        for folder in self.folder.glob("*"):
            if records.is_recorded(store, folder.name):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass
class CheckpointStore:
    """Writes and reads the checkpoints of runs that train side by side.

    If a checkpoint is damaged or cannot be written, ``report`` logs a line and training continues.
    """

    checkpoints: Checkpoints
    runs: Sequence[str]
    report: Callable[[str], None]

    def __post_init__(self):
        self._folders = [self.checkpoints.folder / run for run in self.runs]
        self._last_write = time.monotonic()

    def read_newest(self) -> list[State] | None:
        """Read the runs' states at the newest step at which no state is damaged, or return None."""
        for path in newest_first(self._folders[0]):
            states = [read_state(folder / path.name) for folder in self._folders]
            undamaged = [state for state in states if state is not None]
            if len(undamaged) == len(states):
                return undamaged
            folder = self.checkpoints.folder
            self.report(f"a checkpoint {path.name} in {folder} is damaged and is ignored")
        return None

    def write_if_due(self, take: Callable[[], Sequence[State]]) -> None:
        """Write the states that ``take`` returns, if a checkpoint is due or training must stop.

        Raises:
            StoppedError: training must stop. The states are written first, if possible.
        """
        reason = self.checkpoints.stop_reason()
        age = time.monotonic() - self._last_write
        if not reason and age < self.checkpoints.seconds:
            return
        written = self.write(take())
        self._last_write = time.monotonic()
        if reason:
            start = "here" if written else "an older checkpoint"
            raise StoppedError(f"stopped by {reason}: the next attempt continues from {start}")

    def remove(self) -> None:
        """Remove the checkpoints of these runs, after the runs are recorded."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, states: Sequence[State]) -> bool:
        """Write the state of each run, and return whether all states were written."""
        try:
            for folder, state in zip(self._folders, states, strict=True):
                write_state(folder, state)
        except (OSError, SafetensorError) as error:
            self.report(f"cannot write a checkpoint to {self.checkpoints.folder}: {error}")
            return False
        return True


def write_state(folder: Path, state: State) -> None:
    """Write the state of a run to its folder, completely or not at all, and remove old states."""
    tensors: dict[str, Tensor] = {}

    def replace_by_number(values: Tensor | np.ndarray) -> dict[str, str]:
        number = str(len(tensors))
        tensors[number] = torch.as_tensor(values).detach().cpu().contiguous()
        return {TENSOR: number}

    facts = json.dumps(state, default=replace_by_number)
    header = {"facts": facts, "hash": _hash(tensors, facts)}
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / uuid4().hex
    try:
        safetensors.torch.save_file(tensors, temporary, header)
        flush_to_disk(temporary)
        temporary.rename(folder / f"{state['step']:012d}{ENDING}")
        flush_to_disk(folder)
    finally:
        temporary.unlink(missing_ok=True)
    for path in newest_first(folder)[CHECKPOINTS_KEPT:]:
        path.unlink(missing_ok=True)


def read_state(path: Path) -> State | None:
    """Read the state of a run. Return None if the file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
        tensors = safetensors.torch.load_file(path)
    except (OSError, SafetensorError):
        return None
    facts = header.get("facts", "")
    if header.get("hash") != _hash(tensors, facts):
        return None
    return json.loads(
        facts, object_hook=lambda item: tensors[item[TENSOR]] if TENSOR in item else item
    )


def newest_first(folder: Path) -> list[Path]:
    """List the checkpoint files in the folder of a run, newest first."""
    return sorted(folder.glob(f"*{ENDING}"), reverse=True)


def _hash(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
