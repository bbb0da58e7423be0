"""What steps share: training with a job's model and token ids."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.core.process import prepare_device, report, stop_requests
from subtune.steps.jobs import Job, Paths

if TYPE_CHECKING:
    from subtune.runs.spec import RunSpec
    from subtune.training.checkpoints import Checkpoints

    Train = Callable[[Sequence[RunSpec]], None]


def make_trainer(
    inputs: Paths,
    store: Path,
    checkpoints: "Checkpoints",
    report: Callable[[str], None],
    threads: int,
    scored: Collection[str] = (),
) -> "Train":
    """Return a function that trains runs of one model and task, and records them.

    Args:
        inputs: the paths of the model, the token ids and the rankings, which are read when the
            function is first called.
        store: the directory of records.
        checkpoints: the runs' checkpoints.
        report: a function that gets lines about epochs and records.
        threads: the number of threads.
        scored: ids of selections whose runs are also scored on their training rows.
    """
    from subtune.data.load import read_splits
    from subtune.methods.single_entries import read_entry_values
    from subtune.models.encoder import load_spec_encoder
    from subtune.training.recorded_runs import train_and_record

    read_once: list[Any] = []

    def train(specs: "Sequence[RunSpec]") -> None:
        if not read_once:
            model = load_spec_encoder(specs[0], inputs["model"]).to(prepare_device(threads))
            rankings = {
                Path(path).stem: read_entry_values(Path(path)) for path in inputs["rankings"]
            }
            read_once.extend([model, read_splits(Path(inputs["tokens"])), rankings])
        model, tokens, rankings = read_once
        runs = [spec.id for spec in specs if spec.selection.id in scored]
        train_and_record(specs, store, model, tokens, rankings, report, checkpoints, runs)

    return train


@contextmanager
def training(job: Job, threads: int) -> "Iterator[Train]":
    """Yield a job's function that trains and records runs, until a signal asks it to stop.

    At the end without an error, the checkpoints are removed.
    """
    from subtune.training.checkpoints import Checkpoints

    needed = job.resources
    with stop_requests() as stopping:
        seconds = 60 * needed["checkpoint_minutes"]
        checkpoints = Checkpoints(Path(needed["checkpoints"]), seconds, stopping)
        store, scored = Path(needed["store"]), needed["train_scores"]
        yield make_trainer(job.inputs, store, checkpoints, report, threads, scored)
        checkpoints.clear()
