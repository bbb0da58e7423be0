"""The jobs of a plan: what each step would do, in plain values that any process can read and run.

Importing this module must be fast, because every job imports it.
"""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError
from subtune.core.files import hash_text, write_atomically
from subtune.core.gpus import hold_gpu
from subtune.core.process import StoppedError, log_line, stop_requests

# Maps names to a path or a list of paths.
Paths = dict[str, Any]
# The modules of the steps. Each step is listed after the steps that make its inputs.
STEPS = (
    "dataset",
    "model",
    "tokens",
    "fisher",
    "gradient",
    "mask",
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
        inputs: maps names to the path or paths of input files.
        outputs: maps names to the path or paths of output files.
        resources: ``mem_mb`` and ``minutes`` of the first attempt, the expected ``seconds``, the
            number of GPUs ``gpu``, and paths such as ``store``. A job does not run again if its
            resources change: additional ids in ``scored_selections`` do not add training scores to
            recorded runs.
    """

    step: str
    id: str
    spec: dict[str, Any]
    inputs: Paths
    outputs: Paths
    resources: dict[str, Any]

    @property
    def spec_hash(self) -> str:
        """A hash of the spec and its order. If it changes, a job whose id is a name runs again."""
        return hash_text(json.dumps(self.spec))


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

    Raises:
        StoppedError: a signal stopped the training.
        SubtuneError: an input cannot be used, an output cannot be written, or another version of
            subtune, with other results, has planned the job.
    """
    if other := find_other_versions(job.spec):
        raise SubtuneError(
            f"{job.id}: planned by another version of subtune ({other}); run the command again"
        )
    with write_atomically(job.outputs) as outputs, ExitStack() as held:
        if job.resources.get("gpu"):
            # These imports take seconds, during which another job may use the GPU.
            import_module("subtune.training.recorded_runs")
            with stop_requests() as stopping:

                def require_no_request() -> None:
                    if signal_name := stopping():
                        raise StoppedError(f"stopped by {signal_name} before the job started")

                held.enter_context(hold_gpu(log_line, require_no_request))
                require_no_request()
        import_module(f"subtune.steps.{job.step}").run(job, outputs, threads)


def find_other_versions(spec: Mapping[str, Any]) -> str:
    """Describe the version numbers in a job's spec that this version of subtune does not have.

    A job's spec contains only the numbers that affect its results. The code itself is not compared,
    because most updates do not change results. A fold is the only spec whose ``version`` is a
    number.
    """
    text = json.dumps(spec).replace('"version": ', '"fold_version": ')
    # The text of a label cannot match, because JSON escapes its quotation marks.
    found = sorted({*re.findall(r'"(\w+_version)": (\d+)', text)})
    own = vars(import_module("subtune.runs.spec")) if found else {}
    here = [(name, number, own.get(name.upper())) for name, number in found]
    return ", ".join(f"{name} {old}, now {new}" for name, old, new in here if old != str(new))
