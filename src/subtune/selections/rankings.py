"""Rankings of entries by Fisher information. Every mask is the first part of one.

One ranking gives the mask of every fraction: its first ⌈f·n⌉ entries. The scope of a mask is the
set of tasks that the ranking sums over: the task itself (individual), all (global), or all others
(cross-validated).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import safetensors.numpy

from subtune.core.errors import SubtuneError, one_line
from subtune.selections.patterns import WholeTensors
from subtune.selections.specs import FisherSpec

Scope = Literal["individual", "global", "cv"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

Information = Mapping[str, np.ndarray]


def fishers_in_scope(
    scope: Scope, task: str, fishers: Mapping[str, FisherSpec]
) -> list[FisherSpec]:
    """Return the Fisher information that a mask of ``task`` uses, sorted by task.

    Raises:
        SubtuneError: a cross-validated mask has no other task to use.
    """
    tasks = {"individual": {task}, "global": set(fishers), "cv": set(fishers) - {task}}[scope]
    if not tasks:
        raise SubtuneError(f"a cross-validated mask of {task!r} needs at least one other task")
    return [fishers[name] for name in sorted(tasks)]


def summed(per_task: Sequence[Information]) -> dict[str, np.ndarray]:
    """Divide each task's information by its sum, then add over tasks (LayerNorm paper, 3.4).

    Raises:
        SubtuneError: a task's information is zero or not finite.
    """
    result: dict[str, np.ndarray] = {}
    for information in per_task:
        total = sum(float(values.sum(dtype=np.float64)) for values in information.values())
        if not (np.isfinite(total) and total > 0):
            raise SubtuneError(f"Fisher information sums to {total}, expected a positive number")
        for name, values in information.items():
            result[name] = result.get(name, 0.0) + values.astype(np.float64) / total
    return result


def ranks(information: Information) -> dict[str, np.ndarray]:
    """Return the rank of every entry, 0 for the most informative. Ties go to the earlier entry."""
    flat = np.concatenate([values.ravel() for values in information.values()])
    order = np.argsort(-flat, kind="stable")
    rank = np.empty(len(flat), dtype=np.int32)
    rank[order] = np.arange(len(flat), dtype=np.int32)
    ends = np.cumsum([values.size for values in information.values()])
    return dict(zip(information, np.split(rank, ends[:-1]), strict=True))


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a Fisher file or a ranking, by name.

    Raises:
        SubtuneError: the file is damaged.
    """
    with one_line(f"{path} is damaged; delete it, and call snakemake again"):
        return safetensors.numpy.load_file(path)


def rank_files(of: WholeTensors, paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Rank the entries of ``of`` by the summed information of the tasks' Fisher files.

    Raises:
        SubtuneError: a selected tensor's information is not stored in full.
    """
    per_task = []
    for path in paths:
        entries = read(path)
        shapes = {name: values.shape for name, values in entries.items()}
        names = sorted(of.names(shapes))
        per_task.append({name: entries[name] for name in names})
    return ranks(summed(per_task))
