"""The plan as a file: made once for a configuration, and read by every job.

Only `made` plans. Jobs import this module, so it imports nothing that takes time.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, one_line
from subtune.core.files import write_text
from subtune.stages.stage import Stage, digest_of, text_of

# The environment variable with the paths of a call's plans as JSON: one for each workflow module.
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
    digest = digest_of(json.dumps(data, sort_keys=True, default=str))
    return Path(data.get("results", "results"), "plans", f"{digest}.json")


def read(data: Mapping[str, Any]) -> StagePlan:
    """Return the plan of the call to which a job belongs.

    If the configuration was edited since the call began, it is the last plan that the call offered.

    Args:
        data: the configuration as the job has parsed it.
    """
    own, offered = str(path_of(data)), _offered()
    path = own if own in offered or not offered else offered[-1]
    return _from_json(json.loads(Path(path).read_bytes()))


def offer(data: Mapping[str, Any]) -> None:
    """Name the plan of a parsed configuration to all later processes."""
    os.environ[OFFERED] = json.dumps([*_offered(), str(path_of(data))])


def _offered() -> list[str]:
    return json.loads(os.environ.get(OFFERED, "[]"))


def current(data: Mapping[str, Any]) -> StagePlan:
    """Return the plan of a parsed configuration like `made`, but write nothing."""
    return _from_json(_unchanged(data) or _planned(data))


def made(data: Mapping[str, Any]) -> StagePlan:
    """Return the plan of a parsed configuration.

    The plan is made and written if there is none, or if a file that the configuration names or
    subtune's own code has changed. Otherwise it is read. The files of stages with a name are
    rewritten if their content differs.

    Args:
        data: the parsed configuration (`subtune.config.parsed`).

    Raises:
        SubtuneError: the configuration, or a file or model that it names, cannot be used.
    """
    content = _unchanged(data)
    if not content:
        content, path = _planned(data), path_of(data)
        with one_line(f"results: cannot write {path}"):
            _write_if_changed(path, json.dumps(content))
    plan = _from_json(content)
    for kind in plan.stages.values():
        for stage in filter(has_name, kind.values()):
            _write_if_changed(Path(str(stage.inputs["spec"])), text_of(stage))
    return plan


def require_current(stage: Stage) -> None:
    """Refuse a stage with a name if a later call has planned it with other settings.

    Its outputs would be newer than the other settings, as if they were made with them.

    Raises:
        SubtuneError: the file of the stage's spec is not the one that was planned.
    """
    if has_name(stage):
        text = Path(str(stage.inputs["spec"])).read_text(encoding="utf-8")
        if digest_of(text) != stage.resources["digest"]:
            raise SubtuneError(
                f"{stage.kind} {stage.id}: its settings have changed since this call began; "
                "call again"
            )


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
        # The configuration has a mistake, or an earlier version of subtune wrote the plan.
        return None
    return None


def _planned(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plan a configuration, and return the content of its plan's file."""
    from subtune.config import check_config
    from subtune.stages import planned, preflight

    checked, plan, forms = preflight.preflight(check_config(data))
    notes = list(preflight.try_tokenizers(plan))
    every = [*planned.Stages(checked, plan, forms).all()]
    stages: dict[str, dict[str, Stage]] = {}
    for stage in every:
        stages.setdefault(stage.kind, {})[stage.id] = stage
    settings = planned.settings_of(checked)
    made = StagePlan(stages, planned.targets_of(every), settings, notes)
    read = _states(sorted(map(str, preflight.named_files(checked, plan))))
    return {"code": _code(), "read": read} | made._asdict()


def _from_json(content: Mapping[str, Any]) -> StagePlan:
    stages = {
        kind: {id: Stage(*fields) for id, fields in by_id.items()}
        for kind, by_id in content["stages"].items()
    }
    return StagePlan(stages, content["targets"], content["settings"], content["notes"])


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


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
    states = (f"{path} {_state(path)}" for path in sorted(_sources(Path(__file__).parents[1])))
    return digest_of("\n".join([sys.prefix, *states]))


def _sources(package: Path) -> Iterator[Path]:
    return (path for path in package.rglob("*.*") if "__pycache__" not in path.parts)
