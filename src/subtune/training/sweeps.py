"""Training of a sweep: its runs, in groups that train side by side."""

from collections.abc import Iterator, Mapping

from subtune.core.errors import SubtuneError, reason_of
from subtune.core.machine import is_out_of_memory
from subtune.models.encoder import Encoder
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.groups import Report, group_runs
from subtune.training.padding import checked_for_padding
from subtune.training.recipe import Member, train
from subtune.training.results import Result

# In a record's provenance, the key of the reason why batches have no padding.
WITHOUT_PADDING = "without_padding"


def train_sweep(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    members: Mapping[str, Member],
    report: Report,
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, Result]]:
    """Train every member of a sweep, side by side if that is faster.

    Except for rounding, and for dropout on a GPU, a member's result depends neither on the other
    members nor on their order. Runs with a common checkpoint continue from it. If memory is not
    enough for a group, each half continues from its last checkpoint.

    Args:
        members: the runs by their ids.
        report: a function that gets lines about each run's epochs.
        max_side_by_side: the largest number of runs in a group.

    Yields:
        A member's id and result, as soon as it is known.

    Raises:
        StoppedError: the sweep was asked to stop.
        SubtuneError: a single run does not fit into memory.
    """
    model = checked_for_padding(model, examples.values())
    if model.transformers is not None and model.transformers.sees_padding:
        line = "padding changes this model's results: every pass has texts of one length"
        report(line, WITHOUT_PADDING)
    waiting: list[list[str]] = []
    for runs in checkpoints.groups(members) if checkpoints else [members]:
        alike = {run: members[run] for run in runs}
        waiting += group_runs(model, examples["train"], alike, max_side_by_side, report)
    while waiting:
        runs = waiting.pop(0)
        keeper = Keeper(checkpoints, runs, report) if checkpoints else None
        try:
            results = train(model, examples, task, [members[n] for n in runs], report, keeper)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            waiting = [*_halves(runs, members, error, report), *waiting]
            continue
        yield from zip(runs, results, strict=True)
        if keeper:
            keeper.clear()


def _halves(
    runs: list[str], members: Mapping[str, Member], error: Exception, report: Report
) -> tuple[list[str], list[str]]:
    """Return the halves of a group that does not fit into memory.

    Raises:
        SubtuneError: the group is a single run.
    """
    if len(runs) == 1:
        batch_size = members[runs[0]].recipe.batch_size
        raise SubtuneError(
            f"run {runs[0]} alone does not fit into memory with batch_size {batch_size}; "
            "try a smaller batch_size or max_length, or a device with more memory "
            f"({reason_of(error)})"
        ) from None
    half = len(runs) // 2
    sizes = f"{half} and {len(runs) - half}"
    report(f"{len(runs)} runs side by side do not fit into memory: now {sizes}")
    return runs[:half], runs[half:]
