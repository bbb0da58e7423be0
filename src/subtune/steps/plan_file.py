"""The plan as a file: made once for a configuration, and read by every job.

Only `write_plan` plans. Jobs import this module, so it imports nothing that takes time.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, one_line
from subtune.core.files import write_text
from subtune.steps.job import Job, digest_of, text_of

# The environment variable with the paths of a call's plans as JSON: one for each workflow module.
OFFERED = "SUBTUNE_PLAN"
# The size and the time of change of a file, or None if there is no such file.
State = list[int] | None


class PlannedJobs(NamedTuple):
    """All jobs of a configuration, and the few settings that rules need.

    Attributes:
        jobs: jobs by kind and id.
        targets: the files that each experiment asks for, by its name; ``all``: those of every one.
        settings: ``results``, ``environment``, ``container``, ``longest_job_hours``, and the
            citations of experiments' ``papers``.
        notes: lines for the user about the inputs, such as tables with many unknown tokens.
    """

    jobs: dict[str, dict[str, Job]]
    targets: dict[str, list[str]]
    settings: dict[str, Any]
    notes: list[str]

    def job(self, name: str) -> Job:
        """Return the job with a kind and an id, as in ``train/cola-0123456789ab``."""
        kind, _, id = name.partition("/")
        return self.jobs[kind][id]


def plan_path(data: Mapping[str, Any]) -> Path:
    """Return the plan's file: ``RESULTS/plans/ID.json``, where ID is a hash of the configuration.

    Args:
        data: the parsed configuration.
    """
    digest = digest_of(json.dumps(data, sort_keys=True, default=str))
    return Path(data.get("results", "results"), "plans", f"{digest}.json")


def read_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of the call to which a job belongs.

    If the configuration was edited since the call began, it is the last plan that the call offered.

    Args:
        data: the configuration as the job has parsed it.
    """
    own, offered = str(plan_path(data)), _offered()
    path = own if own in offered or not offered else offered[-1]
    return _from_json(json.loads(Path(path).read_bytes()))


def offer_plan(data: Mapping[str, Any]) -> None:
    """Name the plan of a parsed configuration to all later processes."""
    os.environ[OFFERED] = json.dumps([*_offered(), str(plan_path(data))])


def _offered() -> list[str]:
    return json.loads(os.environ.get(OFFERED, "[]"))


def find_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of a parsed configuration like `write_plan`, but write nothing."""
    return _from_json(_unchanged(data) or _planned(data))


def write_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of a parsed configuration.

    The plan is made and written if there is none, or if a file that the configuration names or
    subtune's own code has changed. Otherwise it is read. The files of jobs with a name are
    rewritten if their content differs.

    Args:
        data: the parsed configuration (`subtune.config.parsed`).

    Raises:
        SubtuneError: the configuration, or a file or model that it names, cannot be used.
    """
    content = _unchanged(data)
    if not content:
        content, path = _planned(data), plan_path(data)
        with one_line(f"results: cannot write {path}"):
            _write_if_changed(path, json.dumps(content))
    plan = _from_json(content)
    for kind in plan.jobs.values():
        for job in filter(has_name, kind.values()):
            _write_if_changed(Path(str(job.inputs["spec"])), text_of(job))
    return plan


def require_current(job: Job) -> None:
    """Refuse a job with a name if a later call has planned it with other settings.

    Its outputs would be newer than the other settings, as if they were made with them.

    Raises:
        SubtuneError: the file of the job's spec is not the one that was planned.
    """
    if has_name(job):
        text = Path(str(job.inputs["spec"])).read_text(encoding="utf-8")
        if digest_of(text) != job.resources["digest"]:
            raise SubtuneError(
                f"{job.step} {job.id}: its settings have changed since this call began; call again"
            )


def has_name(job: Job) -> bool:
    """Return whether a job's id is a name, so that its spec is one of its inputs."""
    return "spec" in job.inputs


def _unchanged(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content of a plan's file, or None if there is none or its origins changed."""
    try:
        found = json.loads(plan_path(data).read_bytes())
        if found["code"] == _code() and found["read"] == _states(found["read"]):
            return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The configuration has a mistake, or an earlier version of subtune wrote the plan.
        return None
    return None


def _planned(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plan a configuration, and return the content of its plan's file."""
    from subtune.config import check_config
    from subtune.steps import planned, preflight

    checked, plan = preflight.preflight(check_config(data))
    notes = list(preflight.try_tokenizers(plan))
    every = [*planned.Jobs(checked, plan).all()]
    jobs: dict[str, dict[str, Job]] = {}
    for job in every:
        jobs.setdefault(job.step, {})[job.id] = job
    settings = planned.settings_of(checked)
    made = PlannedJobs(jobs, planned.targets_of(every), settings, notes)
    read = _states(sorted(map(str, preflight.named_files(checked, plan))))
    return {"code": _code(), "read": read} | made._asdict()


def _from_json(content: Mapping[str, Any]) -> PlannedJobs:
    jobs = {
        kind: {id: Job(*fields) for id, fields in by_id.items()}
        for kind, by_id in content["jobs"].items()
    }
    return PlannedJobs(jobs, content["targets"], content["settings"], content["notes"])


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
