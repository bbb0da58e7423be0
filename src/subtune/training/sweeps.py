"""Sweeps: the runs of one job."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from subtune.core.errors import SubtuneError
from subtune.models.encoder import Encoder
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.evaluation import without_padding_where_it_is_seen
from subtune.training.groups import group_runs
from subtune.training.recipe import Member, OutOfMemoryError, train
from subtune.training.run import Result

# Tells the log a line. With a name the line also stands in the records of the runs.
Report = Callable[..., None]
# Why runs train one by one: their model cannot compute them side by side.
ONE_BY_ONE = "one_by_one"
# Why batches have no padding: it changes what their model computes.
WITHOUT_PADDING = "without_padding"


def train_sweep(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    members: Mapping[str, Member],
    report: Report,
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
    share: float = 1.0,
    names: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Result]]:
    """Train every member of a sweep, side by side where that is faster.

    A member's result depends neither on the other members nor on their order: with the same number
    of a processor's threads it is the same to the last bit. Runs with a common checkpoint continue
    from it. If memory is not enough for a group, one half continues first, and the other half then.

    Args:
        model: the pretrained model on its device.
        examples: of the training split and the task's evaluation splits.
        task: decides loss and metrics.
        members: the runs by their ids.
        report: is told of every run's epochs.
        max_side_by_side: the largest number of runs in a group.
        checkpoints: of this sweep.
        share: the share of all steps to take.
        names: the log's names for members; without them their ids.

    Yields:
        A member's id and its result, as soon as it is known.

    Raises:
        StoppedError: the sweep was asked to stop.
        SubtuneError: a run alone does not fit into memory.
    """
    model = without_padding_where_it_is_seen(model, examples.values())
    if model.transformers is not None and model.transformers.sees_padding:
        line = "padding changes what this model computes: every pass has texts of one length"
        report(line, WITHOUT_PADDING)
    resumed = checkpoints.groups(members) if checkpoints else []
    new = [run for run in members if not any(run in runs for runs in resumed)]
    waiting = [
        [runs[number] for number in group]
        for runs in [*resumed, new]
        for group in group_runs(
            model,
            examples["train"],
            [members[run] for run in runs],
            max_side_by_side,
            lambda line: report(line, ONE_BY_ONE),
        )
    ]
    while waiting:
        runs = waiting.pop(0)

        def say_of_run(number: int, line: str, runs: Sequence[str] = runs) -> None:
            report(f"{names[runs[number]] if names else runs[number]}  {line}")

        keeper = Keeper(checkpoints, runs, report) if checkpoints else None
        group = [members[run] for run in runs]
        try:
            results = train(model, examples, task, group, say_of_run, keeper, share)
        except OutOfMemoryError as error:
            if len(runs) == 1:
                batch_size = group[0].recipe.batch_size
                raise SubtuneError(
                    f"run {runs[0]} by itself does not fit into memory with batch_size "
                    f"{batch_size}: a smaller batch_size or max_length would, or a device with "
                    f"more memory ({error})"
                ) from None
            half = len(runs) // 2
            sizes = f"{half} and {len(runs) - half}"
            report(f"{len(runs)} runs side by side do not fit into memory: now {sizes}")
            waiting = [runs[:half], runs[half:], *waiting]
            continue
        yield from zip(runs, results, strict=True)
        if keeper:
            keeper.clear()
