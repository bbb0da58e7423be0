"""Sweeps: the runs of one job, trained on one shared model."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from subtune.models.encoder import EncoderClassifier
from subtune.selection import Entries
from subtune.specs import Recipe
from subtune.tasks import Task
from subtune.training.batches import Rows
from subtune.training.recipe import Result, train


@dataclass(frozen=True)
class Member:
    """One run of a sweep: what trains, how, and from which seed."""

    entries: Entries
    recipe: Recipe
    seed: int


def train_sweep(
    model: EncoderClassifier,
    rows: Mapping[str, Rows],
    task: Task,
    members: Iterable[Member],
    report: Callable[[str], None],
) -> Iterator[Result]:
    """Train every member of a sweep, and yield their results in order, each as soon as it is there.

    A member's result does not depend on which others are in the sweep, nor on their order.

    Args:
        model: the pretrained model on its device; it comes back unchanged.
        rows: the training split and the task's evaluation splits.
        task: decides loss and metrics.
        members: the runs.
        report: is told one line per epoch.
    """
    for number, member in enumerate(members, start=1):

        def tell(line: str, number: int = number) -> None:
            report(f"run {number}  {line}")

        yield train(model, rows, task, member.entries, member.recipe, member.seed, tell)
