"""Runs of `config.yaml`, and of all papers in a day, compared with the papers."""

import re

import pytest

from subtune import papers
from subtune.config.checks import read_config
from subtune.exhibits.score_tables import select_printed_scores
from subtune.methods import METHODS, is_method
from subtune.papers import assign_papers, experiments_showing_fisher_information, find_paper
from subtune.plan.cost import Estimates, cost_table
from subtune.plan.plan import make_plan
from tests.helpers.project import ROOT
from tests.unit.papers.test_experiments import exhibits_of

PAPERS = ["layernorm", "bitfit", "bitfit_plus", "spafit"]
DAY = ROOT / "examples" / "papers-in-a-day.yaml"


def tables_of_sizes(experiment):
    """The table that an experiment has if it trains on several numbers of rows."""
    several = any(len(experiment.with_overrides(task).train_rows) > 1 for task in experiment.tasks)
    return ["sizes"] if several else []


@pytest.fixture(scope="module")
def at_scale():
    return make_plan(read_config(ROOT / "config.yaml"))


@pytest.fixture(scope="module")
def planned(at_scale):
    return at_scale.experiments


@pytest.fixture(scope="module")
def day():
    return assign_papers(read_config(DAY))


@pytest.fixture(scope="module")
def plan_of_day(day):
    return make_plan(day)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_printed_method_is_trained_with_its_model_on_its_tasks(paper, planned):
    scores = find_paper(paper).read_printed("scores")
    scores = scores[~scores["is_average"] & scores["method"].map(lambda name: is_method(name, {}))]
    tasks = scores["task"].str.partition("_")[0]
    # Tasks that a paper treats apart are separate experiments.
    together = ~tasks.isin(find_paper(paper).tasks_apart)
    scores, tasks = scores[together], tasks[together]
    expected = set(zip(scores["model"], scores["method"], tasks, strict=True))
    assert expected
    assert expected <= {(run.model_name, run.method, run.task_name) for run in planned[paper]}


@pytest.mark.parametrize("paper", papers.paper_names())
def test_every_method_that_a_claim_asks_after_is_trained(paper, planned, plan_of_day):
    methods = {run.method for run in planned[paper]}
    assert methods == {run.method for run in plan_of_day.experiments[paper]}
    claims = find_paper(paper).claims
    reads = {"chosen"} if find_paper(paper).folder.is_dir() else {"sizes"}
    arguments = [of for claim in claims if reads & {*claim.reads} for of in claim.of]
    named_methods = {of for of in arguments if isinstance(of, str) and is_method(of, {})}
    assert named_methods <= methods
    # Other claims name a family by a pattern of methods' names, or several methods.
    patterns = [of for of in arguments if isinstance(of, str) and not is_method(of, {})]
    families = [p for p in patterns if any(re.match(p, method) for method in methods)]
    assert named_methods or families


def test_methods_are_searched_over_the_learning_rates_of_their_papers(planned):
    full = {1e-5, 2e-5, 3e-5, 5e-5}
    spafit = {2e-3, 6e-3, 2e-5, 6e-5}

    def rates(paper, method, task="rte"):
        runs = [run.spec for run in planned[paper] if (run.method, run.task_name) == (method, task)]
        return {run.recipe.learning_rate for run in runs}

    assert [rates(paper, "full") for paper in PAPERS] == [full, full, full, spafit]
    assert rates("bitfit_plus", "bitfit") == {1e-3}
    assert rates("bitfit_plus", "bitfit", "cola") == {7e-4}
    assert rates("layernorm", "layernorm") == rates("bitfit", "bitfit") == {1e-4, 4e-4, 7e-4, 1e-3}


@pytest.mark.parametrize(
    ("paper", "recipe"),
    [
        ("layernorm", ("constant", 0, 0, 20)),
        ("bitfit", ("constant", 0, 0, 20)),
        ("bitfit_plus", ("constant", 0, 0, 16)),
        # The Trainer's schedule; the rest is in appendix A.2.
        ("spafit", ("linear", 0, 0.01, 10)),
        # Values of the paper's published code.
        ("beft_roberta", ("constant", 0, 0, 30)),
    ],
)
def test_experiments_train_as_their_papers_say(paper, recipe, planned):
    recipes = [run.spec.recipe for run in planned[paper]]
    assert {(r.schedule, r.warmup, r.weight_decay, r.epochs) for r in recipes} == {recipe}


def test_parts_of_speech_are_tagged_with_the_printed_methods_and_models(planned):
    printed = select_printed_scores(find_paper("bitfit").read_printed("scores"), ["pos"])
    expected = set(zip(printed["model"], printed["method"], strict=True))
    assert {(run.model_name, run.method) for run in planned["bitfit_pos"]} == expected
    assert {run.task_name for run in planned["bitfit_pos"]} <= {"ptb", "ud_ewt"}


def test_the_size_curve_is_of_nested_parts_of_squad(planned):
    sizes = sorted({run.train_rows for run in planned["bitfit_squad"]})
    assert sizes[:-1] == [1000 * 4**n for n in range(4)]
    assert sizes[-1] > 64000
    assert {run.method for run in planned["bitfit_squad"]} == {"full", "bitfit"}


def test_little_data_is_as_little_as_in_the_code_of_beft(planned):
    """Low, medium and high mean different numbers for each task; epochs and learning rates differ
    too."""
    runs = [run for run in planned["beft"] if run.method == "b_v"]
    for task, rows in {"rte": [300, 900, 1200], "cola": [1710, 3420, 4275]}.items():
        assert [run.train_rows for run in runs if run.task_name == task] == rows
    recipes = [run.spec.recipe for run in runs if run.task_name == "stsb"]
    assert {(recipe.learning_rate, recipe.epochs) for recipe in recipes} == {(1e-4, 60)}


def test_a_day_is_enough_for_every_exhibit_and_claim(day, plan_of_day):
    def shown(config):
        names = set()
        for experiment in config.experiments.values():
            claims = find_paper(experiment.paper).claims_for_tasks(experiment.tasks)
            made = [
                *exhibits_of(experiment, *tables_of_sizes(experiment)),
                *(c.text for c in claims),
            ]
            names |= {(experiment.paper, name) for name in made}
        return names

    assert shown(day) == shown(assign_papers(read_config(ROOT / "config.yaml")))
    every = cost_table(Estimates(plan_of_day), experiments_showing_fisher_information(day)).iloc[-1]
    assert every["hours"] <= 24 and every["sweeps"] <= 50
    assert f"has {every['runs']} runs in {every['jobs']} jobs" in DAY.read_text()


def test_all_learning_rates_of_full_fine_tuning_are_in_one_job(at_scale):
    jobs = {}
    for key, sweep in at_scale.sweeps.items():
        for spec in (run.spec for run in sweep):
            if spec.selection == METHODS["full"]:
                jobs.setdefault(spec.with_learning_rate(1).id, set()).add(key)
    assert {len(keys) for keys in jobs.values()} == {1}


def test_products_are_shortened_only_as_papers_leave_open(at_scale):
    """On GPUs without tf32, as SPAFIT's, it is float32."""
    recipes = [of.spec.recipe for of in at_scale.runs.values()]
    assert len(recipes) == 2001 and {recipe.precision for recipe in recipes} == {"tf32"}
