"""Sweeps: the runs of one job."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from subtune.data.batches import Rows
from subtune.models.encoder import Encoder
from subtune.tasks import TaskSpec
from subtune.training.checkpoints import Checkpoints
from subtune.training.fusing import group_runs
from subtune.training.recipe import Member, train
from subtune.training.reports import Report
from subtune.training.run import Result


def train_sweep(
    model: Encoder,
    rows: Mapping[str, Rows],
    task: TaskSpec,
    members: Mapping[str, Member],
    report: Callable[[Report], None],
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, Result]]:
    """Train every member of a sweep, side by side where that is faster.

    A member's result does not depend on which others are in the sweep, nor on their order. Groups
    that have a checkpoint go on from there, together as they were.

    Args:
        model: the pretrained model on its device.
        rows: the training split and the task's evaluation splits.
        task: decides loss and metrics.
        members: the runs by their ids.
        report: is told of every run's epochs.
        max_side_by_side: where more could train side by side.
        checkpoints: of this sweep.

    Yields:
        A member's id and its result, as soon as it is there.

    Raises:
        StoppedError: it was asked to stop.
    """
    kept = checkpoints.groups() if checkpoints else []
    resumed = [runs for runs in kept if members.keys() >= set(runs)]
    new = [run for run in members if not any(run in runs for runs in resumed)]
    groups = group_runs(model, rows["train"], [members[run] for run in new], max_side_by_side)
    numbers = {run: number for number, run in enumerate(members, 1)}
    for runs in [*resumed, *([new[number] for number in group] for group in groups)]:

        def report_of_run(number: int, of: Report, runs: Sequence[str] = runs) -> None:
            run = runs[number]
            report(Report(f"run {numbers[run]}  {of.text}", of.event, {"run": run, **of.facts}))

        def report_line(line: str) -> None:
            report(Report(line))

        keeper = checkpoints.keeper(runs, report_line) if checkpoints else None
        results = train(model, rows, task, [members[run] for run in runs], report_of_run, keeper)
        yield from zip(runs, results, strict=True)
        if keeper:
            keeper.clear()
