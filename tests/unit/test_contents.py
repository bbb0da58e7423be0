"""An experiment makes the tables and figures for which it has the runs."""

import pytest

from subtune import contents, papers
from subtune.plan import plan
from tests.helpers.examples import config, experiment

FRACTIONS = {"values": [0.2], "learning_rates": [1e-3]}


def names(settings, **changed):
    return list(contents.exhibits(config(settings, **changed), settings))


@pytest.mark.parametrize(("seeds", "there"), [([0], False), ([0, 1], True)])
def test_a_variance_over_repeats_needs_repeats(seeds, there):
    assert ("repeat_variance" in names(experiment(paper="bitfit_plus", seeds=seeds))) is there


def test_a_map_of_changes_needs_its_method_and_its_task():
    settings = experiment(paper="bitfit_plus", methods={"g_LN1": [1e-3]})
    assert "figure8" in names(settings) and "figure9" not in names(settings)
    drawn = contents.parameters_drawn(config(settings), settings)
    assert drawn == [{"method": "g_LN1", "task": "rte"}]
    settings = experiment(paper="bitfit_plus", tasks=["sst2"])
    assert not contents.parameters_drawn(config(settings), settings)


def test_curves_need_fractions():
    assert "figure5" not in names(experiment(paper="layernorm"))
    assert "figure5" in names(experiment(paper="layernorm", fractions=FRACTIONS))


@pytest.mark.parametrize("paper", papers.all_papers())
def test_an_experiment_with_all_runs_has_every_exhibit(paper):
    every = papers.find(paper).exhibits
    methods = {method for exhibit in every for method in exhibit.needs.methods}
    settings = experiment(
        paper=paper,
        methods={method: [1e-3] for method in ("full", *methods)},
        tasks=["rte", "cola", "mrpc", "stsb"],
        fractions=FRACTIONS,
        seeds=[0, 1],
    )
    around = {"claims", "reproduction", "paired_tests", "choices", "learning_curves"}
    there = {*(exhibit.name for exhibit in every), *around, "submission/contents"}
    assert set(names(settings, test_scores="scores.csv")) == there


def test_exhibits_are_in_the_papers_order():
    every = names(experiment(paper="layernorm", methods={"full": [1e-3]}, fractions=FRACTIONS))
    assert every[:3] == ["claims", "figure1", "table1"]
    assert every.index("figure2") < every.index("figure5") < every.index("choices")


def test_test_scores_have_a_table_once_there_are_some():
    settings = experiment(paper="layernorm")
    assert "table3" not in names(settings)
    assert "table3" in names(settings, test_scores="scores.csv")


def test_an_experiment_without_a_paper_has_what_needs_none():
    expected = ["scores", "paired_tests", "choices", "learning_curves", "submission/contents"]
    assert names(experiment()) == expected
    assert names(experiment(), source="builtin") == expected[:-1]
    assert contents.data_of_claims(config(experiment()), experiment()) == ["chosen"]


def test_claims_read_test_scores_once_there_are_some():
    settings = experiment(paper="layernorm")
    assert "test_scores" not in contents.data_of_claims(config(settings), settings)
    returned = config(settings, test_scores="scores.csv")
    assert "test_scores" in contents.data_of_claims(returned, settings)


@pytest.mark.parametrize(("asked", "rows"), [(None, 2490), (64, 64)])
def test_a_task_trains_on_its_own_rows_or_as_many_as_are_asked_for(tiny_bert, asked, rows):
    settings = experiment(train_rows=asked, max_length=64)
    models = {"minilm": {"path": str(tiny_bert)}}
    assert contents.train_rows(plan(config(settings, models=models)), "mine") == {"rte": rows}


def test_a_table_reads_what_is_optional_where_it_is_there():
    settings = experiment(paper="layernorm")
    table = contents.exhibits(config(settings), settings)["kruskal_wallis"]
    assert contents.data_read(config(settings), settings, table) == {"dev": "chosen"}
    both = contents.data_read(config(settings, test_scores="scores.csv"), settings, table)
    assert both == {"dev": "chosen", "test": "test_scores"}
