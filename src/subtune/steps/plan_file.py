"""The plan file, which passes the jobs of a configuration to other processes.

The process that a user starts writes the plan file. The file is named by a hash of its content, so
no other call changes the plan of a running call. An *index file*, named by a hash of the
configuration, contains the path of its newest plan, and the state of all files that were read. If
nothing has changed since, the next call reads this plan, which is faster than planning.

Reading a plan file or index file updates its modification time. When a plan is written, files that
nobody has used for `DAYS_UNUSED` days are removed. A call whose jobs all wait or run for longer
could lose its plan. Its jobs would then end with one line in their logs.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.files import hash_text, write_text
from subtune.steps.jobs import STEPS, Job, find_other_versions, list_files

if TYPE_CHECKING:
    from subtune.steps.context import Context

# The environment variable with the plan files of a call, as a JSON object from the name of each
# Snakemake module to a path. Snakemake passes the variable to all jobs, even on a cluster. Jobs
# parse the configuration again, and a user may have edited the configuration in the meantime.
PASSED = "SUBTUNE_PLANS"
# A job can wait in the queue of a cluster for weeks, and a call can run for weeks.
DAYS_UNUSED = 90


class PlannedJobs(NamedTuple):
    """All jobs of a configuration, and the settings that Snakemake's rules need.

    Attributes:
        jobs: maps each step to its jobs, by id.
        settings: ``results``, ``environment``, ``container`` and ``longest_job_hours``.
        notes: messages to the user about the inputs, from `Context`.
        path: the plan file; empty if the plan is not in a file.
    """

    jobs: dict[str, dict[str, Job]]
    settings: dict[str, Any]
    notes: list[str]
    path: str = ""

    def list_outputs(self, *steps: str, id: str | None = None) -> list[str]:
        """Return the outputs of all jobs of some steps, or only of their jobs with this id."""
        jobs = [job for step in steps for job in self.jobs[step].values() if id in (None, job.id)]
        return [path for job in jobs for path in list_files(job.outputs)]

    def job(self, name: str) -> Job:
        """Return the job with the name ``STEP/ID``, such as ``train/cola-0123456789ab``."""
        step, _, id = name.partition("/")
        if id not in self.jobs.get(step, {}):
            raise SubtuneError(f"{name}: this job is not in the plan {self.path}")
        return self.jobs[step][id]


def read_plan(path: str) -> PlannedJobs:
    """Read a plan file, and mark the file as used."""
    with convert_errors(f"{path}: cannot read this plan; run the command again"):
        _mark_used(Path(path))
        content = json.loads(Path(path).read_bytes())
        jobs = {
            step: {id: Job(*fields) for id, fields in by_id.items()}
            for step, by_id in content["jobs"].items()
        }
        return PlannedJobs(jobs, content["settings"], content["notes"], path)


def pass_plan(plan: PlannedJobs, module: str) -> None:
    """Pass a plan file to all processes started from now on, for one of Snakemake's modules."""
    passed = json.loads(os.environ.get(PASSED, "{}"))
    os.environ[PASSED] = json.dumps(passed | {module: plan.path})


def read_passed_plan(module: str) -> PlannedJobs:
    """Read the plan file of the call that started this process."""
    path = json.loads(os.environ.get(PASSED, "{}")).get(module)
    if path is None:
        raise SubtuneError(f"{PASSED}: not set; let the cluster pass environment variables to jobs")
    return read_plan(path)


def plan_jobs(context: "Context") -> PlannedJobs:
    """Return the jobs of all steps, and the rules' settings."""
    jobs = {}
    for step in STEPS:
        module = import_module(f"subtune.steps.{step}")
        jobs[step] = {job.id: job for job in module.jobs(context)}
    config = context.config
    settings = {
        "results": config.results,
        "environment": "cuda" if config.assumptions.on_gpu else "cpu",
        "container": config.container,
        "longest_job_hours": config.assumptions.longest_job_hours,
    }
    return PlannedJobs(jobs, settings, [*context.notes])


def write_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of a parsed configuration, and write it to a plan file.

    If subtune's code and all files that the configuration names are unchanged, the existing plan
    file is read instead. A configuration, file or model that cannot be used raises a
    `SubtuneError`.
    """
    folder = Path(str(data.get("results", "results")), "plans").absolute()
    name = hash_text(json.dumps(data, default=str))
    index, code, before = folder / f"configuration-{name}.json", _hash_code(), None
    # A damaged index file can raise any of these errors.
    with suppress(OSError, ValueError, KeyError, TypeError, SubtuneError):
        found = json.loads(index.read_bytes())
        if found["code"] != code:
            before = str(folder / found["plan"])
        elif found["read"] == _stat_files(found["read"]):
            _mark_used(index)
            return read_plan(str(folder / found["plan"]))

    from subtune.config.checks import check_config
    from subtune.steps.context import plan_and_check

    context = plan_and_check(check_config(data))
    read = _stat_files(sorted(map(str, context.input_files())))
    planned = plan_jobs(context)
    text = json.dumps(planned._asdict())
    path = folder / f"{hash_text(text)}.json"
    with convert_errors(f"results: cannot write {path}"):
        # An existing file may be another user's, whose jobs must be able to read the file.
        if not os.access(path, os.R_OK) or path.read_bytes() != text.encode():
            write_text(path, text)
        _mark_used(path)
        write_text(index, json.dumps({"code": code, "read": read, "plan": path.name}))
    _remove_unused(folder)
    notes = [*planned.notes, *(_explain_repeated_jobs(before) if before else [])]
    return planned._replace(path=str(path), notes=notes)


def _explain_repeated_jobs(before: str) -> list[str]:
    """Return a line if an update makes finished jobs of the previous plan file run again."""
    with suppress(SubtuneError):
        jobs = [job for by_id in read_plan(before).jobs.values() for job in by_id.values()]
        done = [job for job in jobs if all(map(os.path.exists, list_files(job.outputs)))]
        if others := [*filter(None, (find_other_versions(job.spec) for job in done))]:
            return [
                f"subtune was updated ({others[-1]}); finished jobs to run again: {len(others)}"
            ]
    return []


def _mark_used(path: Path) -> None:
    """Set a file's modification time to now. Only the owner can do this, so others write a copy."""
    try:
        os.utime(path)
    except OSError:
        with suppress(OSError):
            mode = path.stat().st_mode
            write_text(path, path.read_text(encoding="utf-8"))
            path.chmod(mode)


def _remove_unused(folder: Path) -> None:
    """Remove the plan files, index files and drafts that nobody has used for `DAYS_UNUSED` days."""
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - DAYS_UNUSED * 24 * 3600:
                path.unlink()


def _stat_files(paths: Iterable[str]) -> dict[str, list[int] | None]:
    """Map each path to the file's size and modification time in ns, or None for a missing file."""
    states: dict[str, list[int] | None] = dict.fromkeys(paths)
    for path in states:
        with suppress(OSError):
            about = Path(path).stat()
            states[path] = [about.st_size, about.st_mtime_ns]
    return states


def _hash_code() -> str:
    """Hash the sizes and modification times of subtune's files, and the environment's path."""
    package = Path(__file__).parents[1]
    files = (str(path) for path in package.rglob("*.*") if "__pycache__" not in path.parts)
    return hash_text(f"{sys.prefix} {_stat_files(sorted(files))}")
