"""An experiment makes the tables and figures for which it has the runs."""

import math
from itertools import product

import pandas as pd
import pytest

from subtune import papers
from subtune.plan.plan import make_plan
from subtune.steps.exhibits import list_computed_tables
from tests.helpers.examples import config, experiment, scored
from tests.helpers.exhibits import dev_scores, results

FRACTIONS = {"values": [0.2]}
TRAINS_G_LN1 = {"methods": {"g_LN1": [1e-3]}}
# Exhibits of every experiment, in order.
FIRST = ["answers", "front", "summary"]
LAST = ["choices", "learning_curves"]


def exhibits_of(settings, *read):
    """The exhibits of an experiment's results, by name, with the tasks that each shows.

    ``read``: tables that not every experiment has.
    """
    paper = papers.find_paper(settings.paper)
    fractions = [(1.0, None)] + [(0.2, "individual")] * bool(settings.fractions)
    methods = {method for model in settings.models for method in settings.methods_for(model)}
    rows = [
        (task, method, fraction, scope, 1e-3, seed, 0.5)
        for task, method, (fraction, scope), seed in product(
            settings.tasks, sorted(methods), fractions, settings.seeds
        )
    ]
    made = list_computed_tables(paper, settings.tasks)
    empty = dict.fromkeys((*made, *read, "parameter_changes"), pd.DataFrame())
    of_runs = {name: scored(*rows) for name in ("chosen", "scores", *read)}
    tasks = dict.fromkeys(settings.tasks, "")
    shown = results(tasks, settings.paper, **empty | of_runs)
    return {exhibit.name: [*its.tasks] for exhibit, its in paper.exhibits_with_data(shown)}


def names(settings, *read):
    return [*exhibits_of(settings, *read)]


@pytest.mark.parametrize(
    ("paper", "exhibit", "without", "needed"),
    [
        ("bitfit_plus", "repeat_variance", {"seeds": [0]}, {"seeds": [0, 1]}),
        ("bitfit_plus", "figure8", {}, TRAINS_G_LN1),
        ("bitfit_plus", "figure8", {"tasks": ["sst2"], **TRAINS_G_LN1}, TRAINS_G_LN1),
        ("layernorm", "figure5", {}, {"fractions": FRACTIONS}),
    ],
)
def test_an_exhibit_needs_its_runs(paper, exhibit, without, needed):
    assert exhibit not in names(experiment(paper=paper, **without))
    assert exhibit in names(experiment(paper=paper, **needed))


@pytest.mark.parametrize(("exhibit", "table"), [("sizes", "sizes"), ("table3", "test_scores")])
def test_an_exhibit_needs_its_table(exhibit, table):
    assert exhibit not in names(experiment(paper="layernorm"))
    assert exhibit in names(experiment(paper="layernorm"), table)


@pytest.mark.parametrize(
    ("name", "settings", "paper"),
    [
        ("bitfit", {}, "bitfit"),
        ("bitfit", {"paper": None}, None),
        ("mine", {}, None),
    ],
)
def test_an_experiment_with_a_papers_name_reproduces_it(name, settings, paper):
    made = config(experiment(), experiments={name: experiment(**settings)})
    assert papers.assign_papers(made).experiments[name].paper == paper


@pytest.mark.parametrize("paper", papers.paper_names())
def test_an_experiment_with_all_runs_has_every_exhibit(paper):
    every = papers.find_paper(paper).exhibits
    methods = {method for exhibit in every for method in exhibit.needs.methods}
    settings = experiment(
        paper=paper,
        methods={method: [1e-3] for method in ("full", *methods)},
        tasks=["rte", "cola", "mrpc", "stsb", "ptb", "squad"],
        fractions=FRACTIONS,
        seeds=[0, 1],
        train_rows=[100, "all"],
    )
    there = {exhibit.name for exhibit in papers.find_paper(paper).all_exhibits()}
    # Without printed scores there is nothing to reproduce.
    there -= {"reproduction"} if paper == "beft" else set()
    assert {*names(settings, "sizes", "test_scores")} == there


def test_exhibits_are_in_the_papers_order():
    every = names(experiment(paper="layernorm", methods={"full": [1e-3]}, fractions=FRACTIONS))
    assert every[:3] == ["figure1", "table1", "table2"]
    ordered = ["figure5", "claims", "answers", "choices"]
    assert [name for name in every if name in ordered] == ordered


def test_an_experiment_without_a_paper_has_what_needs_none():
    assert names(experiment()) == [*FIRST, "scores", *LAST]
    two = experiment(tasks=["rte", "cola"])
    assert names(two) == [*FIRST, "scores", "paired_tests", *LAST]


@pytest.mark.parametrize("tasks", [["ptb"], ["ud_ewt"], ["squad"], ["ud_ewt", "squad"]])
def test_tasks_treated_apart_have_no_exhibits_or_claims_of_the_others(tasks):
    settings = experiment(paper="bitfit", tasks=tasks, methods={"full": [1e-3], "bitfit": [1e-3]})
    shown = set(names(settings))
    assert ("pos" in shown) is ("squad" not in tasks or "ud_ewt" in tasks)
    assert not {name for name in shown if name.startswith(("table", "figure", "generalisation"))}
    # Only the Penn Treebank has printed scores.
    assert ("reproduction" in shown) is (tasks == ["ptb"])
    claims = papers.find_paper("bitfit").claims_for_tasks(tasks)
    assert claims and all(set(claim.tasks) & set(tasks) for claim in claims)


def test_an_exhibit_is_of_its_own_tasks_alone():
    settings = experiment(paper="bitfit", tasks=["rte", "cola"], train_rows=[100, "all"])
    assert not {"pos", "figure2", "figure6"} & set(names(settings))
    paper = papers.find_paper("bitfit")
    claims = paper.claims_for_tasks(settings.tasks)
    assert not any(set(claim.tasks) & set(paper.tasks_apart) for claim in claims)
    settings = experiment(paper="bitfit", tasks=["rte", "ud_ewt", "squad"])
    shown = exhibits_of(settings)
    assert shown["table2"] == ["rte"]
    assert shown["pos"] == ["ud_ewt"]
    assert shown["choices"] == [*settings.tasks]


def test_runs_on_parts_of_the_training_data_are_not_scored_on_it(tiny_bert):
    settings = experiment(paper="bitfit", train_rows=[16, "all"], max_length=64)
    made = config(settings, models={"minilm": {"path": str(tiny_bert)}})
    planned = make_plan(made)
    [run] = papers.runs_scored_on_training_set(made, planned)
    assert planned.runs[run].spec.recipe.train_rows is None


def test_tasks_that_are_not_shown_have_no_rows_and_no_titles():
    chosen = dev_scores(rte={"full": [0.5]}, squad={"full": [0.5]})
    both = results({"rte": "RTE", "squad": "SQuAD"}, chosen=chosen)
    assert both.select_columns(["rte", "squad"]) is both
    shown = both.select_columns(["rte"])
    assert list(shown.column_titles) == ["rte"] and set(shown["chosen"]["task"]) == {"rte"}


@pytest.mark.parametrize("method", ["full", "bitfit"])
def test_a_run_that_diverged_is_a_run(method):
    paper, chosen = papers.find_paper("layernorm"), dev_scores(rte={method: [math.nan]})
    shown = paper.exhibits_with_data(results({"rte": "RTE"}, "layernorm", chosen=chosen))
    assert ("figure1" in {exhibit.name for exhibit, _ in shown}) == (method == "full")


def test_an_experiment_on_other_tasks_has_no_claims_and_nothing_to_reproduce():
    paper = papers.find_paper("layernorm")
    assert not {"claims", "reproduction"} & {*list_computed_tables(paper, ["mine"])}
    assert {"claims", "reproduction"} <= {*list_computed_tables(paper, ["mine", "rte"])}
