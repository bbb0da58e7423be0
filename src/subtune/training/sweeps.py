"""Sweeps: the runs of one job."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from subtune.data.batches import Rows
from subtune.models.encoder import Encoder
from subtune.tasks import Task
from subtune.training.fusing import groups
from subtune.training.recipe import Member, Result, train


def train_sweep(
    model: Encoder,
    rows: Mapping[str, Rows],
    task: Task,
    members: Sequence[Member],
    report: Callable[[str], None],
    most: int | None = None,
) -> Iterator[tuple[int, Result]]:
    """Train every member of a sweep, side by side where that is faster.

    A member's result does not depend on which others are in the sweep, nor on their order.

    Args:
        model: the pretrained model on its device.
        rows: the training split and the task's evaluation splits.
        task: decides loss and metrics.
        members: the runs.
        report: is told one line per run and epoch.
        most: at most so many side by side.

    Yields:
        A member's number, from 0, and its result, as soon as it is there.
    """
    for numbers in groups(model, rows["train"], members, most):

        def tell(place: int, line: str, numbers: list[int] = numbers) -> None:
            report(f"run {numbers[place] + 1}  {line}")

        results = train(model, rows, task, [members[number] for number in numbers], tell)
        yield from zip(numbers, results, strict=True)
