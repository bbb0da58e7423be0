"""What steps that compute share: the model, its training, and the files of finished sweeps."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.core.process import prepare, report, stop_requests
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.models.encoder import Encoder
    from subtune.runs.spec import FisherSpec, RunSpec


def load_job_encoder(job: Job, spec: "RunSpec | FisherSpec", threads: int) -> "Encoder":
    """Return a job's model with a head for the spec's task, on the device that computes."""
    from subtune.models.encoder import load_spec_encoder

    return load_spec_encoder(spec, job.inputs["model"]).to(prepare(threads))


@contextmanager
def training(job: Job, threads: int) -> "Iterator[Callable[[Sequence[RunSpec]], None]]":
    """Yield a function that trains and records runs, until a signal asks it to stop.

    At the end without an error, the checkpoints are removed.
    """
    from subtune.data.load import read_splits
    from subtune.methods.single_entries import read_entry_values
    from subtune.training.checkpoints import Checkpoints
    from subtune.training.recorded_runs import train_and_record

    resources = job.resources
    read_once: list[Any] = []

    def train(specs: "Sequence[RunSpec]") -> None:
        if not read_once:
            paths = map(Path, job.inputs.get("rankings", ()))
            ranked = {path.stem: read_entry_values(path) for path in paths}
            tokens = read_splits(Path(job.inputs["tokens"]))
            read_once.extend([load_job_encoder(job, specs[0], threads), tokens, ranked])
        model, tokens, ranked = read_once
        store = Path(resources["store"])
        scored = [spec.id for spec in specs if spec.selection.id in resources["train_scores"]]
        train_and_record(
            specs,
            store,
            model,
            tokens,
            ranked,
            report,
            checkpoints=checkpoints,
            train_scores=scored,
        )

    seconds = 60 * resources["checkpoint_minutes"]
    with stop_requests() as stopping:
        checkpoints = Checkpoints(Path(resources["checkpoints"]), seconds, stopping)
        yield train
        checkpoints.clear()


def finished_files(job: Job) -> list[list[Path]]:
    """Return the tables of finished sweeps, and the outputs of their searches."""
    return [[*map(Path, job.inputs[name])] for name in ("sweeps", "searches")]
