"""The plan as a file: made once for a configuration, and read by every job.

Only `made` plans. Jobs import this module, so it imports nothing that takes time.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from subtune.stages.stage import Stage

if TYPE_CHECKING:
    from subtune.tasks.task import TaskSize

ID_LENGTH = 12
# The environment variable with the path of a call's plan.
OFFERED = "SUBTUNE_PLAN"
# The size and the time of change of a file, or None if there is no such file.
State = list[int] | None


class StagePlan(NamedTuple):
    """All stages of a configuration, and the few settings that rules need.

    Attributes:
        stages: stages by kind and id.
        targets: the files that each experiment asks for, by its name; ``all``: those of every one.
        settings: ``results``, ``environment``, ``container``, ``longest_job_hours``, and the
            citations of experiments' ``papers``.
        notes: lines for the user about the inputs, such as tables with many unknown tokens.
    """

    stages: dict[str, dict[str, Stage]]
    targets: dict[str, list[str]]
    settings: dict[str, Any]
    notes: list[str]

    def stage(self, name: str) -> Stage:
        """Return the stage with a kind and an id, as in ``train/cola-0123456789ab``."""
        kind, _, id = name.partition("/")
        return self.stages[kind][id]


def path_of(data: Mapping[str, Any]) -> Path:
    """Return the plan's file: ``RESULTS/plans/ID.json``, where ID is a hash of the configuration.

    Args:
        data: the parsed configuration.
    """
    text = json.dumps(data, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]
    return Path(data.get("results", "results"), "plans", f"{digest}.json")


def read(data: Mapping[str, Any]) -> StagePlan:
    """Return the plan that `made` has written for a parsed configuration.

    If its file was edited while a call runs, jobs read the call's plan, which `offer` has named.
    """
    path = path_of(data)
    plan = path if path.is_file() else Path(os.environ.get(OFFERED, path))
    return _from_json(json.loads(plan.read_bytes()))


def offer(data: Mapping[str, Any]) -> None:
    """Name the plan of a parsed configuration to all later processes."""
    os.environ[OFFERED] = str(path_of(data))


def made(data: Mapping[str, Any], sizes: "Mapping[str, TaskSize] | None" = None) -> StagePlan:
    """Return the plan of a parsed configuration.

    The plan is made and written if there is none, or if a file that the configuration names or
    subtune's own code has changed. Otherwise it is read. The files of stages with a name are
    rewritten if their content differs.

    Args:
        data: the parsed configuration (`subtune.config.parsed`).
        sizes: sizes of tables that were read before, from a `Plan`.

    Raises:
        SubtuneError: the configuration, or a file or model that it names, cannot be used.
    """
    found = _unchanged(data)
    plan = _from_json(found) if found else _planned(data, sizes)
    for kind in plan.stages.values():
        for stage in filter(has_name, kind.values()):
            _write_if_changed(Path(str(stage.inputs["spec"])), _without_resources(stage))
    return plan


def has_name(stage: Stage) -> bool:
    """Return whether a stage's id is a name, so that its spec is one of its inputs."""
    return "spec" in stage.inputs


def _unchanged(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content of a plan's file, or None if there is none or its origins changed."""
    try:
        found = json.loads(path_of(data).read_bytes())
        if found["code"] == _code() and found["read"] == _states(found["read"]):
            return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A configuration with a mistake, or the plan of an earlier version.
        return None
    return None


def _planned(data: Mapping[str, Any], sizes: "Mapping[str, TaskSize] | None") -> StagePlan:
    """Plan a configuration, and write its plan."""
    from subtune import config
    from subtune.core.errors import one_line
    from subtune.stages import planned, preflight

    checked, plan, forms = preflight.preflight(config.check(data), sizes)
    notes = list(preflight.try_tokenizers(plan))
    every = [*planned.Stages(checked, plan, forms).all()]
    stages: dict[str, dict[str, Stage]] = {}
    for stage in every:
        stages.setdefault(stage.kind, {})[stage.id] = stage
    settings = planned.settings_of(checked)
    made = StagePlan(stages, planned.targets_of(every), settings, notes)
    origins = {
        "code": _code(),
        "read": _states(sorted(map(str, preflight.named_files(checked, plan)))),
    }
    path = path_of(data)
    with one_line(f"results: cannot write {path}"):
        _write_if_changed(path, json.dumps(origins | made._asdict()))
    return made


def _from_json(content: Mapping[str, Any]) -> StagePlan:
    stages = {
        kind: {id: Stage(*fields) for id, fields in by_id.items()}
        for kind, by_id in content["stages"].items()
    }
    return StagePlan(stages, content["targets"], content["settings"], content["notes"])


def _without_resources(stage: Stage) -> str:
    """Return the values of a stage on which its result depends, as JSON."""
    fields = stage.to_json()
    del fields["resources"]
    return json.dumps(fields, indent=1, sort_keys=True) + "\n"


def _write_if_changed(path: Path, text: str) -> None:
    from subtune.core.layout import drafts

    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        with drafts({"text": str(path)}) as new:
            Path(new["text"]).write_text(text, encoding="utf-8")


def _states(paths: Iterable[str]) -> dict[str, State]:
    return {path: _state(Path(path)) for path in paths}


def _state(path: Path) -> State:
    try:
        about = path.stat()
    except OSError:
        return None
    return [about.st_size, about.st_mtime_ns]


def _code() -> str:
    """Return a hash of the states of subtune's own files, and of the place of its environment."""
    digest = hashlib.sha256(sys.prefix.encode())
    for path in sorted(_sources(Path(__file__).parents[1])):
        digest.update(f"{path} {_state(path)}\n".encode())
    return digest.hexdigest()[:ID_LENGTH]


def _sources(package: Path) -> Iterator[Path]:
    return (path for path in package.rglob("*.*") if "__pycache__" not in path.parts)
