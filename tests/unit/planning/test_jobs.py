"""Runs are split over jobs."""

import copy

import pytest

from subtune import config
from subtune.planning.plan import plan as plan_of
from tests.helpers.plans import BASE, embedded, plan


def test_methods_with_different_epochs_share_a_job():
    made = plan(tasks=["cola"], by_method={"layernorm": {"epochs": 4}}, fractions=None)
    [sweep] = made.sweeps.values()
    assert {made.runs[run].run.recipe.epochs for run in sweep.runs} == {2, 4}


CPU = {"assumptions": {"device": "CPU core"}}
GPU = {"assumptions": {"device": "H100"}}


@pytest.mark.parametrize(("machine", "of_full"), [(CPU, [["full"]] * 2), (GPU, [["full", "full"]])])
def test_jobs_that_train_at_once_are_of_runs_that_share_steps(machine, of_full):
    """On a CPU, a run that trains matrices shares none. Runs of other epochs or seeds never do."""
    made = plan(
        {"jobs_at_once": 2} | machine,
        methods={"full": [1e-5, 2e-5], "bitfit": "search", "layernorm": [1e-3], "frozen": [1e-2]}
        | {"embeddings": None},
        by_method={"frozen": {"epochs": 5}},
        tasks=["cola"],
        fractions=None,
        seeds=[0, 1],
    )
    name_of = {p.key: (p.method, p.run.seed) for p in made.experiments["layernorm"]}
    jobs = [[name_of[run] for run in sweep.runs] for sweep in made.sweeps.values()]
    groups = [*of_full, ["frozen"], ["bitfit", "layernorm"]]
    expected = [[(method, seed) for method in group] for group in groups for seed in (0, 1)]
    assert sorted(jobs) == sorted([*expected, [("embeddings", 0)]])


def test_learning_rates_that_share_steps_are_in_one_job_if_it_can_have_them():
    def methods_of_jobs(machine):
        methods = {"full": [1e-5, 2e-5, 5e-5], "bitfit": [1e-4, 1e-3], "random": [1e-4, 1e-3]}
        settings = {"methods": methods, "tasks": ["cola"], "fractions": None}
        made = plan({"runs_per_job": 3} | machine, **settings)
        method_of = {p.key: p.method for p in made.experiments["layernorm"]}
        return [[method_of[run] for run in sweep.runs] for sweep in made.sweeps.values()]

    assert methods_of_jobs(GPU) == [["full"] * 3, ["bitfit"] * 2, ["random"] * 2]
    assert {job.count("bitfit") for job in methods_of_jobs(CPU)} == {0, 2}


def test_diff_pruning_trains_alone_on_every_machine():
    for machine in (CPU, GPU):
        methods = {"diff-prune": [1e-5, 2e-5]}
        made = plan(machine, methods=methods, tasks=["cola"], fractions=None)
        assert [made.shared_steps(run) for run in made.runs] == [*made.runs]


def test_sweeps_do_not_depend_on_other_methods_searches():
    settings = {"tasks": ["cola"], "fractions": None}
    made = plan({"jobs_at_once": 2}, methods={"layernorm": [1e-3], "full": "search"}, **settings)
    alone = plan({"jobs_at_once": 2}, methods={"layernorm": [1e-3]}, **settings)
    assert alone.sweeps.keys() < made.sweeps.keys()


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
        specs = [made.runs[run].run for run in sweep.runs]
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


def test_searches_share_a_job_unless_jobs_train_at_once():
    settings = {"methods": {"bitfit": "search", "layernorm": "search"}, "fractions": None}
    made = plan(**settings, tasks=["cola"])
    assert [set(job) for job in made.search_jobs.values()] == [{*made.searches}]
    apart = plan({"jobs_at_once": 2}, **settings, tasks=["cola"])
    assert {key: (key,) for key in apart.searches} == apart.search_jobs
    small = plan({"runs_per_job": 4}, **settings, tasks=["cola"])
    assert len(small.search_jobs) == 2
