"""Scores that the GLUE server returns: from the form to Table 3 and the combined test."""

import pandas as pd
import pytest

from subtune import glue_server
from subtune.analysis.reproduction import of_exhibits
from subtune.core.errors import SubtuneError
from subtune.papers import printed
from subtune.planning import submissions as planned
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.exhibits import made

METHODS = ("full", "bitfit", "layernorm", "random")


@pytest.fixture
def form():
    experiment = examples.experiment(
        models=["bert-large-cased"],
        tasks=[name for name in TASKS if name != "wnli"],
        methods={method: [1e-3] for method in METHODS},
    )
    config = examples.config(experiment).model_copy(
        update={"experiments": {"layernorm": experiment}}
    )
    return pd.DataFrame(planned.form(config, "layernorm", {}))


def as_ours(exhibit):
    """Return a printed table of the LayerNorm paper, as if it were ours."""
    table = of_exhibits(printed.scores("layernorm"), [exhibit]).rename(columns={"task": "column"})
    return table.assign(
        run=table["method"] + "/" + table["column"].str.partition("_")[0],
        task=table["column"].str.partition("_")[0],
        scope=None,
        fraction=1.0,
        seed=0,
        decides=~table["column"].str.endswith("mismatched"),
    )


def entered(form, path, **changed):
    """Write the form, filled with the paper's Table 3."""
    scores = of_exhibits(printed.scores("layernorm"), ["table3"]).set_index(["method", "task"])[
        "value"
    ]
    form["score"] = [100 * scores[key] for key in zip(form["method"], form["task"], strict=True)]
    for column, value in changed.items():
        form[column] = form[column].astype(object)
        form.loc[0, column] = value
    form.to_csv(path, index=False)
    return path


def test_the_papers_own_test_scores_give_the_papers_p_values(form, tmp_path):
    scores = glue_server.returned_scores(entered(form.copy(), tmp_path / "scores.csv"), form)
    dev = as_ours("table2")
    test = glue_server.as_chosen(dev, scores)
    table = made("layernorm", "kruskal_wallis", {"chosen": dev, "test_scores": test})
    table = table.set_index("scores")
    for ours, papers in (
        ("this run's table 2 (validation)", "paper's table2 (validation)"),
        ("this run's table 3 (test)", "paper's table3 (test)"),
        ("this run's table 2 + table 3", "paper's table2 + table3"),
    ):
        assert round(table["p_value"][ours], 5) == table["reported"][papers]


def test_scores_that_are_not_there_yet_are_left_out(form, tmp_path):
    form.to_csv(tmp_path / "empty.csv", index=False)
    scores = glue_server.returned_scores(tmp_path / "empty.csv", form)
    assert scores.empty
    assert glue_server.as_chosen(as_ours("table2"), scores).empty


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "bitft"}, "line 2: method: found 'bitft'.*did you mean 'bitfit'"),
        ({"task": "mnli"}, "line 2: task: found 'mnli', expected one of .*mnli_matched"),
        ({"experiment": "mine"}, "line 2: experiment: found 'mine', expected one of layernorm"),
        ({"score": "high"}, "line 2: score: found 'high', expected a number, 0 to 100"),
        ({"score": "912"}, "line 2: score: found '912', expected a number, 0 to 100"),
        ({"score": "nan"}, "line 2: score: found 'nan', expected a number, 0 to 100"),
        ({"score": "-3"}, "line 2: score: found '-3', expected the server's scale, 0 to 100"),
        ({"score": "0.912"}, "line 2: score: found '0.912', expected the server's scale, 0 to"),
        ({"task": "sst2"}, "line 3: entered twice, in line 2 too"),
    ],
)
def test_a_mistake_in_the_form_is_one_line(form, changed, message, tmp_path):
    path = entered(form.copy(), tmp_path / "scores.csv", **changed)
    with pytest.raises(SubtuneError, match=message):
        glue_server.returned_scores(path, form)


def test_a_form_is_read_as_a_spreadsheet_saves_it(form, tmp_path):
    path = entered(form.copy(), tmp_path / "scores.csv")
    expected = glue_server.returned_scores(path, form)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n,,,,,\r\n")
    pd.testing.assert_frame_equal(glue_server.returned_scores(path, form), expected)


def test_a_form_may_have_any_ending(form, tmp_path):
    expected = glue_server.returned_scores(entered(form.copy(), tmp_path / "scores.csv"), form)
    path = (tmp_path / "scores.csv").rename(tmp_path / "scores.txt")
    pd.testing.assert_frame_equal(glue_server.returned_scores(path, form), expected)


def test_shares_in_place_of_percentages_are_noticed(form, tmp_path):
    path = entered(form.copy(), tmp_path / "scores.csv")
    table = pd.read_csv(path)
    table.assign(score=table["score"] / 100).to_csv(path, index=False)
    with pytest.raises(SubtuneError, match="expected the server's scale, 0 to 100"):
        glue_server.returned_scores(path, form)


def test_a_score_of_constants_in_place_of_a_run_that_diverged_counts_for_no_run(form, tmp_path):
    scores = glue_server.returned_scores(entered(form.copy(), tmp_path / "scores.csv"), form)
    dev = as_ours("table2")
    diverged = (dev["method"] == "bitfit") & (dev["task"] == "rte")
    dev["value"] = dev["value"].mask(diverged)
    test = glue_server.as_chosen(dev, scores)
    assert not ((test["method"] == "bitfit") & (test["task"] == "rte")).any()
    assert len(test) == len(dev) - 1
