"""The jobs of a plan, and the plan file by which jobs are passed to other processes.

Jobs consist of plain values, so that both Snakemake's rules and the workers of `compare` can read
jobs. The process that a user starts writes the plan file or, if nothing has changed, reads the
existing file, which is faster. Importing this module must be fast, because every job imports it.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import convert_errors
from subtune.core.files import hash_text, write_atomically, write_text
from subtune.core.gpus import hold_gpu
from subtune.core.process import StoppedError, log_line, stop_requests

# The environment variable with the paths of a call's plan files, one for each workflow module, as
# a JSON list. Snakemake passes the variable to all jobs, even on a cluster. Jobs parse the
# configuration again. If a user has edited the configuration in the meantime, the variable still
# names the plan file of the call.
OFFERED = "SUBTUNE_PLAN"
# Maps names to a path or a list of paths.
Paths = dict[str, Any]
# The steps whose jobs use a GPU, if there is one.
COMPUTING = ("fisher", "search", "train", "test_predictions")
# The modules of the steps. Each step is listed after the steps that make its inputs.
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
    """One call of a step: the values that affect its result, its files, and its resources.

    All values are plain JSON. Paths are relative to the working directory of the call.

    Attributes:
        step: a name in `STEPS`.
        id: a content hash, or a name, for example of an experiment.
        spec: the values that affect the result, and names that tables show.
        inputs: the input files; each name maps to a path or a list of paths.
        outputs: the output files, in the form of ``inputs``.
        resources: ``mem_mb`` and ``minutes`` of the first attempt, and paths such as ``store`` and
            ``hub_cache``. A job does not run again if its resources change. For example, additional
            ids in ``scored_selections`` do not add training scores to recorded runs.
    """

    step: str
    id: str
    spec: dict[str, Any]
    inputs: Paths
    outputs: Paths
    resources: dict[str, Any]

    @property
    def spec_hash(self) -> str:
        """A hash of the spec. A job whose id is a name runs again if this hash changes."""
        return hash_text(json.dumps(self.spec, sort_keys=True))


def list_files(paths: Paths) -> list[str]:
    """Return all paths in the inputs or outputs of a job as one list."""
    lists = ([value] if isinstance(value, str) else value for value in paths.values())
    return [*chain.from_iterable(lists)]


def run_job(job: Job, threads: int = 1) -> None:
    """Run a job in this process, and write its outputs.

    Outputs are written under temporary names and then renamed, so that no output is ever
    incomplete. A job that runs a model reserves a GPU, if there is one. A training job that is
    stopped by one of the signals `subtune.core.process.SIGNALS` writes a checkpoint, from which the
    next call continues.

    Args:
        threads: the number of CPU threads for a model.

    Raises:
        StoppedError: a signal stopped the training.
        SubtuneError: an input cannot be used, or an output cannot be written.
    """
    with write_atomically(job.outputs) as outputs, ExitStack() as held:
        if job.step in COMPUTING:
            # These imports take seconds, in which another job may use the GPU.
            import_module("subtune.training.recorded_runs")
            with stop_requests() as stopping:
                held.enter_context(hold_gpu(log_line, partial(_require_no_request, stopping)))
                _require_no_request(stopping)
        import_module(f"subtune.steps.{job.step}").run(job, outputs, threads)


def _require_no_request(stopping: Callable[[], str | None]) -> None:
    if signal_name := stopping():
        raise StoppedError(f"stopped by {signal_name} before the job started")


class PlannedJobs(NamedTuple):
    """All jobs of a configuration, and the settings that Snakemake's rules need.

    Attributes:
        jobs: maps each step to its jobs, by id.
        targets: maps each experiment's name to the output files and directories of the experiment,
            and ``all`` to the outputs of all experiments.
        settings: ``results``, ``environment``, ``container``, ``longest_job_hours``, and
            ``papers``, which maps each experiment to the citation of its paper.
        notes: messages to the user about the inputs, for example about unknown tokens in a table.
    """

    jobs: dict[str, dict[str, Job]]
    targets: dict[str, list[str]]
    settings: dict[str, Any]
    notes: list[str]

    def job(self, name: str) -> Job:
        """Return the job with the name ``STEP/ID``, such as ``train/cola-0123456789ab``."""
        step, _, id = name.partition("/")
        return self.jobs[step][id]


def plan_path(data: Mapping[str, Any]) -> Path:
    """Return the path of the plan file, whose name is a hash of the parsed configuration."""
    text = json.dumps(data, sort_keys=True, default=str)
    return Path(data.get("results", "results"), "plans", f"{hash_text(text)}.json")


def read_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Read the plan file of the call that started this job.

    If the configuration was edited after the call began, the last plan of the call is read.

    Args:
        data: the configuration as parsed by the job.
    """
    own, offered = str(plan_path(data)), _offered_plans()
    path = own if own in offered or not offered else offered[-1]
    return _from_json(json.loads(Path(path).read_bytes()))


def publish_plan(data: Mapping[str, Any]) -> None:
    """Pass the path of a configuration's plan file to all processes started from now on."""
    os.environ[OFFERED] = json.dumps([*_offered_plans(), str(plan_path(data))])


def _offered_plans() -> list[str]:
    return json.loads(os.environ.get(OFFERED, "[]"))


def write_plan(data: Mapping[str, Any]) -> PlannedJobs:
    """Return the plan of a parsed configuration, and write it to the plan file.

    If subtune's code and all files that the configuration names are unchanged, the existing plan
    file is read instead.

    Args:
        data: the parsed configuration (`subtune.config.parse_config_file`).

    Raises:
        SubtuneError: the configuration, or a file or model that it names, cannot be used.
    """
    content = _read_current_plan(data)
    if not content:
        from subtune.config.checks import check_config
        from subtune.steps.context import plan_and_check, plan_jobs

        context = plan_and_check(check_config(data))
        read = _stat_files(sorted(map(str, context.input_files())))
        content = {"code": _hash_code(), "read": read} | plan_jobs(context)._asdict()
        path = plan_path(data)
        with convert_errors(f"results: cannot write {path}"):
            write_text(path, json.dumps(content))
    return _from_json(content)


def _read_current_plan(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content of the plan file, or None if it is missing or out of date."""
    # There are other errors if the configuration has a mistake, or if another version of subtune
    # wrote the plan file.
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = json.loads(plan_path(data).read_bytes())
        if found["code"] == _hash_code() and found["read"] == _stat_files(found["read"]):
            return found
    return None


def _from_json(content: Mapping[str, Any]) -> PlannedJobs:
    jobs = {
        step: {id: Job(*fields) for id, fields in by_id.items()}
        for step, by_id in content["jobs"].items()
    }
    return PlannedJobs(jobs, content["targets"], content["settings"], content["notes"])


def _stat_files(paths: Iterable[str]) -> dict[str, list[int] | None]:
    """Map each path to the file's size and modification time in ns; None if the file is missing."""
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
