"""Runs are split over jobs."""

import copy
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subtune.config.checks import check_config
from subtune.methods import METHODS
from subtune.plan import plan as planning
from subtune.plan.plan import FEW_EXAMPLES, VARYING, WEIGHT_OF_MATRICES, make_plan
from subtune.runs.spec import Fold, PlannedRun, SearchSpec
from subtune.tasks.task import TaskSize
from tests.helpers import examples
from tests.helpers.plans import BASE, embedded, plan, plan_runs

ROWS = 1000


@st.composite
def plans(draw):
    """A plan of random runs of up to three experiments."""
    changes = {
        "learning_rate": st.sampled_from([1e-4, 1e-3, 1e-2]),
        "epochs": st.sampled_from([1, 3, 100]),
        "batch_size": st.sampled_from([8, 16]),
        "fold": st.sampled_from([None, Fold(of=5, number=0)]),
    }

    def planned():
        kind = METHODS[draw(st.sampled_from(["full", "bitfit", "layernorm", "random", "frozen"]))]
        task = draw(st.sampled_from(["sst2", "rte"]))
        spec = examples.run_spec(kind, task, **{name: draw(of) for name, of in changes.items()})
        spec = spec.replace(seed=draw(st.integers(0, 2)))
        search = draw(st.sampled_from([None, SearchSpec(run=spec, rates=(1e-4, 1e-2))]))
        names = {"model_name": "a model", "method": "a method", "train_rows": ROWS, "seed": 0}
        return PlannedRun(spec=spec, search=search, **names)

    numbers = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    made = {f"e{of}": [planned() for _ in range(number)] for of, number in enumerate(numbers)}
    return made


@settings(max_examples=60)
@given(
    plans(),
    st.sampled_from(["H100", "CPU core"]),
    st.integers(1, 6),
    st.sampled_from([10_000, 300_000, 10_000_000]),
    st.sampled_from([None, 2]),
)
def test_sweeps_are_a_partition_of_the_runs_within_the_limits_of_a_job(
    runs, device, most, most_weight, at_once
):
    limits = {"runs_per_job": most, "jobs_at_once": at_once}
    size = TaskSize(train_rows=ROWS, evaluation_rows=100, test_rows=100, tokens=10)
    made = plan_runs(runs, size, assumptions={"device": device}, **limits)
    with mock.patch.object(planning, "MOST_WEIGHT", most_weight):
        sweeps = made.sweeps
    assert sorted(run.key for sweep in sweeps.values() for run in sweep) == sorted(made.runs)

    def weight(run):
        matrices = WEIGHT_OF_MATRICES if run.spec.work(made.masked_tensors).trains_matrices else 1
        return matrices * ROWS * run.spec.recipe.epochs

    for key, sweep in sweeps.items():
        specs = [run.spec for run in sweep]
        shared = {(s.tokens, s.model, s.recipe.model_dump_json(exclude=VARYING)) for s in specs}
        [(tokens, _, _)] = shared
        assert key.startswith(f"{tokens.data.task.name}-")
        total = sum(map(weight, sweep))
        if at_once:
            assert len({(of.seed, of.recipe.fold, of.recipe.epochs) for of in specs}) == 1
        else:
            assert len(specs) <= most
            assert total <= most_weight or len(specs) == 1
        if total > FEW_EXAMPLES:
            every = made.experiments.values()
            users = [[run.key in {p.key for p in planned} for planned in every] for run in sweep]
            assert users == users[:1] * len(users)


def test_methods_with_different_epochs_share_a_job():
    made = plan(tasks=["cola"], by_method={"layernorm": {"epochs": 4}}, fractions=None)
    [sweep] = made.sweeps.values()
    assert {run.spec.recipe.epochs for run in sweep} == {2, 4}


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
    jobs = [[(run.method, run.spec.seed) for run in sweep] for sweep in made.sweeps.values()]
    groups = [*of_full, ["frozen"], ["bitfit", "layernorm"]]
    expected = [[(method, seed) for method in group] for group in groups for seed in (0, 1)]
    assert sorted(jobs) == sorted([*expected, [("embeddings", 0)]])


def test_learning_rates_that_share_steps_are_in_one_job_if_it_can_have_them():
    def methods_of_jobs(machine):
        methods = {"full": [1e-5, 2e-5, 5e-5], "bitfit": [1e-4, 1e-3], "random": [1e-4, 1e-3]}
        settings = {"methods": methods, "tasks": ["cola"], "fractions": None}
        made = plan({"runs_per_job": 3} | machine, **settings)
        return [[run.method for run in sweep] for sweep in made.sweeps.values()]

    assert methods_of_jobs(GPU) == [["full"] * 3, ["bitfit"] * 2, ["random"] * 2]
    assert {job.count("bitfit") for job in methods_of_jobs(CPU)} == {0, 2}


def test_diff_pruning_trains_alone_on_every_machine():
    for machine in (CPU, GPU):
        methods = {"diff-prune": [1e-5, 2e-5]}
        made = plan(machine, methods=methods, tasks=["cola"], fractions=None)
        assert made.group_runs(made.runs.values()) == [[run] for run in made.runs.values()]


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
    data["experiments"]["again"]["methods"]["bitfit"] = [1e-3]
    both = make_plan(check_config(data))
    assert len(both.runs) == len(plan().runs) + 3
    runs = [run.key for sweep in both.sweeps.values() for run in sweep]
    assert len(runs) == len(set(runs)) == len(both.runs)
    first, again = (set(both.find_sweeps(name)) for name in ("layernorm", "again"))
    assert first <= again and (first < again) is apart


def test_a_run_needed_twice_is_in_one_sweep(base):
    # Fraction 1 is needed once for each scope, and once as the method itself.
    assert len(base.sweeps) == 3


def test_embeddings_have_a_sweep_of_their_own_and_no_part_in_submissions():
    made, planned = embedded(tasks=["cola"])
    keys = [[run.key for run in sweep] for sweep in made.sweeps.values()]
    assert [planned[0].spec.id] in keys
    assert set(made.run_keys_by_method("layernorm", "minilm", "cola")) == {"full"}


def test_searches_share_a_job_unless_jobs_train_at_once():
    settings = {"methods": {"bitfit": "search", "layernorm": "search"}, "fractions": None}
    made = plan(**settings, tasks=["cola"])
    assert [set(job) for job in made.search_jobs.values()] == [{*made.searches}]
    apart = plan({"jobs_at_once": 2}, **settings, tasks=["cola"])
    assert {key: (key,) for key in apart.searches} == apart.search_jobs
    small = plan({"runs_per_job": 4}, **settings, tasks=["cola"])
    assert len(small.search_jobs) == 2
