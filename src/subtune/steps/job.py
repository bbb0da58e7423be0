"""A job of a step: plain values, which a rule and a worker of `compare` read alike."""

import json
from importlib import import_module
from typing import Any, NamedTuple

from subtune.core.files import drafts, hash_text

# A path or a list of paths, by name.
Paths = dict[str, Any]
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
        spec: all values that decide the result.
        inputs: a path or a list of paths by name.
        outputs: the same.
        resources: values that decide no result: ``mem_mb`` and ``minutes`` for a first attempt, and
            places such as ``store`` and ``hub_cache``.
    """

    step: str
    id: str
    spec: dict[str, Any]
    inputs: Paths
    outputs: Paths
    resources: dict[str, Any]

    @property
    def settings(self) -> str:
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
    Lines about the work go to `subtune.core.jobs.report`; `subtune.core.jobs.job_log` sends them to
    a log. While a job trains, `subtune.core.jobs.SIGNALS` ask it to stop: it writes a checkpoint,
    from which the job continues the next time.

    Args:
        threads: the number of threads of a job that computes.

    Raises:
        StoppedError: training was asked to stop.
        SubtuneError: an input cannot be used, or an output cannot be written.
    """
    with drafts(job.outputs) as outputs:
        import_module(f"subtune.steps.{job.step}").run(job, outputs, threads)
