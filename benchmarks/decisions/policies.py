"""The policies that are compared: the former and the present one, and those that decided worse."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.decisions import before
from benchmarks.decisions.recorded import WHOLE
from benchmarks.decisions.replay import Policy
from subtune.comparison import DEFAULTS
from subtune.comparison.next_runs import Progress, Rank, Stage, rank_missing_runs
from subtune.runs.spec import PlannedRun


def rank_again(
    key: Callable[[Rank], tuple[float, ...]], progress: Progress, unlikely: Any
) -> list[tuple[Any, list]]:
    """Rank the missing runs of a model in the order of ``key`` instead of that of `Stage`."""
    ranked = rank_missing_runs(progress, unlikely)
    return sorted(ranked, key=lambda group: (group[0].unlikely, *key(group[0]), group[0]))


def rates_after_two_seeds(rank: Rank) -> tuple[float, ...]:
    """Search after the second seed of every method."""
    return (rank.position if rank.stage <= Stage.MORE_SEEDS else 1.5,)


def rates_of_full_after_two_seeds(rank: Rank) -> tuple[float, ...]:
    """Search for full fine-tuning after the second seed, and for the other methods at the end."""
    searches = rank.stage is Stage.RATES and not rank.after_full
    return (1.5 if searches else rank.position + 100 * (rank.stage > Stage.MORE_SEEDS),)


def full_a_seed_ahead(rank: Rank) -> tuple[float, ...]:
    """Train each seed of full fine-tuning before the seed that precedes it for other methods."""
    is_first, is_last = rank.stage is Stage.BASELINES, rank.stage > Stage.MORE_SEEDS
    return (not is_first, is_last, rank.position - (0 if rank.after_full else 1.5))


# Methods from the smallest one.
BY_SIZE = ("frozen", "layernorm", "bitfit", "lora-I")


def smallest_method_first(
    seeds: int, progress: Progress, unlikely: Any
) -> list[tuple[Any, list[PlannedRun]]]:
    """After ``seeds`` seeds, train all seeds of full fine-tuning and of the smallest method.

    Then train those of the next method. A larger method is the answer only if no smaller one is
    enough.
    """
    groups = defaultdict[Any, list[PlannedRun]](list)
    for rank, runs in rank_missing_runs(progress, unlikely):
        for run in runs:
            size = BY_SIZE.index(run.method) if run.method in BY_SIZE else 0
            is_seed = rank.stage in (Stage.FIRST_SEEDS, Stage.MORE_SEEDS)
            is_later = is_seed and rank.position >= seeds
            stage = Stage.MORE_SEEDS if is_later else rank.stage
            key = rank.unlikely, stage, size * is_later, rank.position, rank.after_full, rank
            groups[key].append(run)
    return sorted(groups.items(), key=lambda group: group[0])


NOW = Policy("now", Progress, rank_missing_runs)
POLICIES = {
    "before": Policy("now", before.Progress, before.rank_missing_runs),
    "now": NOW,
    # Runs that are behind the best learning rate stop early.
    "stopped_runs": NOW._replace(lag=0.05),
    "soon_stopped_runs": NOW._replace(lag=0.01),
    # Methods that are unlikely to be the answer wait sooner.
    **{f"unlikely_below_{p}": NOW._replace(least=p / 100) for p in (5, 10, 20)},
    # All rows and fewer methods, whatever the time limit.
    **{
        "_".join(["without", *names]): NOW._replace(settings=WHOLE, without=names)
        for names in (DEFAULTS.left_out[:number] for number in range(1, 4))
    },
    **{
        f"smallest_first_after_{seeds}_below_{p}": NOW._replace(
            rank=partial(smallest_method_first, seeds), least=p / 100
        )
        for seeds in (1, 2)
        for p in (1, 5, 10, 20)
    },
    "with_all_methods": NOW._replace(settings=WHOLE),
    **{
        rule.__name__: Policy("now", Progress, partial(rank_again, rule))
        for rule in (rates_after_two_seeds, rates_of_full_after_two_seeds, full_a_seed_ahead)
    },
}
