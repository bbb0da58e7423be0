"""The jobs of a plan, and the file in which the process that plans passes them on.

A job has plain values, which a rule and a worker of `compare` read alike. The process that a user
starts plans, or reads the file if nothing has changed, which is faster. Every job's process imports
this module, so it imports nothing that takes time.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import one_line
from subtune.core.files import drafts, hash_text, write_text
from subtune.core.gpus import hold_gpu
from subtune.core.process import StoppedError, report, stop_requests

# The environment variable with the paths of a call's plans as JSON: one for each workflow module.
# Snakemake passes it to jobs, on a cluster too. A job parses the configuration again, and without
# the variable it would look for the plan of a configuration that was edited since the call began.
OFFERED = "SUBTUNE_PLAN"
# A path or a list of paths, by name.
Paths = dict[str, Any]
# The steps whose jobs compute on a GPU, if there is one.
COMPUTING = ("fisher", "search", "train", "test_predictions")
# The modules of the steps. A step's jobs come after those that make their inputs.
STEPS = (
    "dataset",
    "model",
    "tokens",
    "fisher",
    "ranking",
    "search",
    "train",
    "scores",
    "test_predictions",
    "submission",
    "exhibits",
    "summary",
    "runs",
    "report_page",
)


class Job(NamedTuple):
    """One piece of a step's work: the values that decide its result, its files, and what it needs.

    All values are plain JSON. Paths are relative to the folder of the call.

    Attributes:
        step: a name in `STEPS`.
        id: a content hash, or a name such as an experiment's.
        spec: the values that decide the result, and names that tables show.
        inputs: a path or a list of paths by name.
        outputs: the same.
        resources: what the job needs beside its inputs: ``mem_mb`` and ``minutes`` for a first
            attempt, and places such as ``store`` and ``hub_cache``. If they change, no job is done
            again: a run that is recorded stays without the scores on training rows for which
            ``scored_selections`` asks.
    """

    step: str
    id: str
    spec: dict[str, Any]
    inputs: Paths
    outputs: Paths
    resources: dict[str, Any]

    @property
    def spec_hash(self) -> str:
        """A hash of the spec. A job whose id is a name runs again if it differs."""
        return hash_text(json.dumps(self.spec, sort_keys=True))


def files(paths: Paths) -> list[str]:
    """Return all paths of a job's inputs or outputs, in their order."""
    return [
        path for value in paths.values() for path in ([value] if isinstance(value, str) else value)
    ]


def run_job(job: Job, threads: int = 1) -> None:
    """Do a job in this process, and write its outputs.

    Outputs are written under temporary names and then renamed, so an output is whole or absent.
    Lines about the work go to `subtune.core.process.report`; `subtune.core.process.job_log` sends
    them to a log. A job that computes holds a GPU, if there is one. While a job trains,
    `subtune.core.process.SIGNALS` ask it to stop: it writes a checkpoint, from which the job
    continues the next time.

    Args:
        threads: the number of threads of a job that computes.

    Raises:
        StoppedError: training was asked to stop.
        SubtuneError: an input cannot be used, or an output cannot be written.
    """
    with drafts(job.outputs) as outputs, ExitStack() as held:
        if job.step in COMPUTING:
            # These imports take seconds, in which another job may use the GPU.
            import_module("subtune.training.recorded_runs")
            with stop_requests() as stopping:
                held.enter_context(hold_gpu(report, partial(_require_no_request, stopping)))
                _require_no_request(stopping)
        import_module(f"subtune.steps.{job.step}").run(job, outputs, threads)


def _require_no_request(stopping: Callable[[], str | None]) -> None:
    if number := stopping():
        raise StoppedError(f"stopped by {number} before it had a GPU")


class PlannedJobs(NamedTuple):
    """All jobs of a configuration, and the few settings that rules need.

    Attributes:
        jobs: jobs by step and id.
        targets: the files and folders that each experiment asks for, by its name; ``all``: those of
            every one.
        settings: ``results``, ``environment``, ``container``, ``longest_job_hours``, and the
            citations of experiments' ``papers``.
        notes: lines for the user about the inputs, such as tables with many unknown tokens.
    """

    jobs: dict[str, dict[str, Job]]
    targets: dict[str, list[str]]
    settings: dict[str, Any]
    notes: list[str]

    def job(self, name: str) -> Job:
        """Return the job with a step and an id, as in ``train/cola-0123456789ab``."""
        step, _, id = name.partition("/")
        return self.jobs[step][id]


def plan_path(data: Mapping[str, Any]) -> Path:
    """Return the plan's file: ``RESULTS/plans/ID.json``, where ID is a hash of the configuration.

    Args:
        data: the parsed configuration.
    """
    text = json.dumps(data, sort_keys=True, default=str)
    return Path(data.get("results", "results"), "plans", f"{hash_text(text)}.json")


def read_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of the call to which a job belongs.

    If the configuration was edited since the call began, it is the last plan that the call offered.

    Args:
        data: the configuration as the job has parsed it.
    """
    own, offered = str(plan_path(data)), _offered_plans()
    path = own if own in offered or not offered else offered[-1]
    return _from_json(json.loads(Path(path).read_bytes()))


def offer_plan(data: Mapping[str, Any]) -> None:
    """Name the plan of a parsed configuration to all later processes."""
    os.environ[OFFERED] = json.dumps([*_offered_plans(), str(plan_path(data))])


def _offered_plans() -> list[str]:
    return json.loads(os.environ.get(OFFERED, "[]"))


def write_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of a parsed configuration.

    The plan is made and written if there is none, or if a file that the configuration names or
    subtune's own code has changed. Otherwise it is read.

    Args:
        data: the parsed configuration (`subtune.config.parse_config_file`).

    Raises:
        SubtuneError: the configuration, or a file or model that it names, cannot be used.
    """
    content = _read_if_current(data)
    if not content:
        from subtune.config.checks import check_config
        from subtune.steps.context import plan_jobs, preflight

        context = preflight(check_config(data))
        read = _read_states(sorted(map(str, context.named_files())))
        content = {"code": _hash_code(), "read": read} | plan_jobs(context)._asdict()
        path = plan_path(data)
        with one_line(f"results: cannot write {path}"):
            write_text(path, json.dumps(content))
    return _from_json(content)


def _read_if_current(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content of a plan's file, or None if there is none or its origins changed."""
    try:
        found = json.loads(plan_path(data).read_bytes())
        if found["code"] == _hash_code() and found["read"] == _read_states(found["read"]):
            return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The configuration has a mistake, or an earlier version of subtune wrote the plan.
        return None
    return None


def _from_json(content: Mapping[str, Any]) -> PlannedJobs:
    jobs = {
        step: {id: Job(*fields) for id, fields in by_id.items()}
        for step, by_id in content["jobs"].items()
    }
    return PlannedJobs(jobs, content["targets"], content["settings"], content["notes"])


def _read_states(paths: Iterable[str]) -> dict[str, list[int] | None]:
    """Return the size and the time of change of files, or None for a file that is not there."""
    states: dict[str, list[int] | None] = {}
    for path in paths:
        try:
            about = Path(path).stat()
        except OSError:
            states[path] = None
        else:
            states[path] = [about.st_size, about.st_mtime_ns]
    return states


def _hash_code() -> str:
    """Return a hash of the states of subtune's own files, and of the place of its environment."""
    package = Path(__file__).parents[1]
    files = (str(path) for path in package.rglob("*.*") if "__pycache__" not in path.parts)
    return hash_text(f"{sys.prefix} {_read_states(sorted(files))}")
