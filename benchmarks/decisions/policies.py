"""The policies that are compared: the former and the present one, and those that decided worse."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.decisions import before
from benchmarks.decisions.replay import Policy
from subtune.comparison.next_runs import Progress, Rank, Stage, rank_missing_runs


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


def full_two_seeds_ahead(rank: Rank) -> tuple[float, ...]:
    """Train each seed of full fine-tuning two seeds earlier, because every method needs it."""
    return (rank.stage > Stage.MORE_SEEDS, rank.position - (0 if rank.after_full else 1.5))


NOW = Policy("now", Progress, rank_missing_runs)
POLICIES = {
    "before": Policy("before", before.Progress, before.rank_missing_runs),
    "now": NOW,
    # Runs that are behind the best learning rate stop early.
    "stopped_runs": NOW._replace(lag=0.05),
    "soon_stopped_runs": NOW._replace(lag=0.01),
    # Methods that are unlikely to be the answer wait sooner.
    **{f"unlikely_below_{p}": NOW._replace(least=p / 100) for p in (5, 10, 20)},
    **{
        rule.__name__: Policy("now", Progress, partial(rank_again, rule))
        for rule in (rates_after_two_seeds, rates_of_full_after_two_seeds, full_two_seeds_ahead)
    },
}
