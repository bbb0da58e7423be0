"""Runs are split over jobs."""

import copy

import pytest

from subtune import config
from subtune.config.schema import SEARCHED
from subtune.planning.plan import plan as plan_of
from tests.helpers.plans import BASE, embedded, plan


def test_methods_with_different_epochs_share_a_job():
    """Two epochs of 160 rows in batches of four are 80 steps, and four are 160."""
    made = plan(
        tasks=["cola"],
        methods={"bitfit": "search", "layernorm": "search"},
        by_method={"layernorm": {"epochs": 4}},
        fractions=None,
        batch_size=4,
        train_rows=200,
    )
    [sweep] = made.sweeps.values()
    trials = {made.runs[run].recipe.epochs: made.runs[run].recipe.trial for run in sweep.runs}
    assert trials == {2: 0.57, 4: 0.29}


def test_the_seeds_of_a_search_train_in_one_job():
    methods = {"bitfit": "search", "layernorm": {"search": [1e-2, 1e-3]}, "full": [1e-5]}
    made = plan(
        {"runs_per_job": 3}, methods=methods, tasks=["cola"], fractions=None, seeds=[3, 1, 2]
    )
    jobs = [[made.runs[run] for run in sweep.runs] for sweep in made.sweeps.values()]
    searches = [
        [(run.seed, run.recipe.searched, run.recipe.search_seed) for run in j] for j in jobs
    ]
    assert sorted(searches) == sorted(
        [
            [(seed, rates, 3 if rates else None) for seed in (3, 1, 2)]
            for rates in ((), SEARCHED, (1e-3, 1e-2))
        ]
    )


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (1, [["bitfit", "frozen", "full", "layernorm", "lora-I"]]),
        (2, [["bitfit", "frozen", "lora-I"], ["full", "layernorm"]]),
        (9, [["bitfit"], ["frozen"], ["frozen"], ["full"], ["layernorm"], ["lora-I"]]),
    ],
)
def test_jobs_that_train_at_once_have_about_the_same_work(jobs, expected):
    methods = dict.fromkeys(("full", "bitfit", "layernorm", "lora-I"), "search")
    methods["frozen"] = [1e-3, 1e-2]
    made = plan(
        {"jobs_at_once": jobs}, methods=methods, tasks=["cola"], fractions=None, seeds=[0, 1]
    )
    method_of = {p.run.id: p.method for p in made.experiments["layernorm"]}
    jobs_made = [sorted({method_of[run] for run in s.runs}) for s in made.sweeps.values()]
    assert sorted(jobs_made) == expected
    # Rates that share steps are neighbours, and every run is in one job.
    assert sum(len(sweep.runs) for sweep in made.sweeps.values()) == len(made.runs) == 12


@pytest.mark.parametrize(("epochs", "apart"), [(1, False), (1000, True)])
def test_two_experiments_share_the_runs_they_have_in_common(epochs, apart):
    """Few runs are one job, for either experiment."""
    data = copy.deepcopy(BASE)
    data["experiments"]["layernorm"]["epochs"] = epochs
    data["experiments"]["again"] = copy.deepcopy(data["experiments"]["layernorm"])
    data["experiments"]["again"]["methods"]["layernorm"] = [1e-3, 5e-3]
    both = plan_of(config.check(data))
    assert len(both.runs) == len(plan().runs) + 3
    runs = [run for sweep in both.sweeps.values() for run in sweep.runs]
    assert len(runs) == len(set(runs)) == len(both.runs)
    first, again = (set(both.sweeps_of(name)) for name in ("layernorm", "again"))
    assert first <= again and (first < again) is apart


def test_a_sweep_holds_runs_of_one_task_and_no_more_than_a_job_may():
    made = plan({"runs_per_job": 2})
    for sweep in made.sweeps.values():
        specs = [made.runs[run] for run in sweep.runs]
        assert len(specs) <= 2
        assert len({spec.tokens.id for spec in specs}) == 1


def test_a_run_needed_twice_is_in_one_sweep(base):
    # Fraction 1 is needed once for each scope, and once as the method itself.
    assert len(base.sweeps) == 3


def test_embeddings_have_a_sweep_of_their_own_and_no_part_in_submissions():
    made, planned = embedded(tasks=["cola"])
    [own] = [s for s in made.sweeps.values() if planned[0].run.id in s.runs]
    assert own.runs == (planned[0].run.id,)
    assert set(made.runs_on("layernorm", "minilm", "cola")) == {"full"}
