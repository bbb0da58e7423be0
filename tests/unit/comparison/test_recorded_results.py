"""The planned runs of a comparison that are recorded so far."""

from subtune.comparison.next_runs import Progress
from subtune.comparison.recorded_results import join_recorded_runs
from tests.helpers import comparisons


def test_a_recorded_run_that_does_not_depend_on_the_seed_counts_for_every_seed():
    [run, *_] = [one for one in comparisons.progress().planned if one.method == "embeddings"]
    planned = [run.replace(seed=seed) for seed in range(3)]
    progress = Progress(planned, {}, {run.spec.id: 0.5}, set())
    joined = join_recorded_runs([one.columns() for one in planned], progress)
    assert [(entry["seed"], entry["run"]) for entry in joined] == [
        (seed, run.spec.id) for seed in range(3)
    ]


def test_a_run_of_a_search_has_the_rate_that_was_trained_and_the_outcome_so_far():
    middle = comparisons.score_id("bitfit", 0, 1e-3)
    progress = comparisons.progress({middle: 0.5})
    joined = join_recorded_runs([run.columns() for run in progress.planned], progress)
    [entry] = joined
    assert (entry["run"], entry["learning_rate"]) == (middle, 1e-3)
    assert [(rate["learning_rate"], rate["score"]) for rate in entry["tried"]] == [(1e-3, 0.5)]
