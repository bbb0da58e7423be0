"""The GLUE server: zip files that it takes, and scores that it returns."""

import numpy as np
import pandas as pd
import pytest

from subtune import papers
from subtune.core.errors import SubtuneError
from subtune.data import sources
from subtune.data.corpora import read_glue_rows
from subtune.exhibits import glue_server
from subtune.exhibits.glue_server import SUBMISSION_FILES, format_predictions
from subtune.exhibits.output import EMPTY
from subtune.tasks import TASKS
from tests.helpers.examples import config, experiment
from tests.helpers.exhibits import made
from tests.helpers.messages import refused
from tests.helpers.tables import require_taken


def test_predictions_are_words_numbers_or_scores_in_range():
    logits = np.array([[2.0, 1.0], [0.0, 1.0]])
    words = ["entailment", "not_entailment"]
    assert format_predictions(SUBMISSION_FILES["RTE.tsv"], logits) == words
    assert format_predictions(SUBMISSION_FILES["WNLI.tsv"], logits) == ["0", "1"]
    scores = np.array([[-0.3], [2.34567], [7.0]])
    assert format_predictions(SUBMISSION_FILES["STS-B.tsv"], scores) == ["0.000", "2.346", "5.000"]


def predictions(file, run):
    width = len(file.labels) if file.labels else 1
    logits = np.random.default_rng(0).normal(size=(file.rows, width))
    table = pd.DataFrame(logits, columns=[f"logit_{k}" for k in range(width)])
    return table.assign(run=run, split=file.split)


def best_run(task, run, value=0.5):
    cells = {"task": task, "run": run, "learning_rate": 1e-3, "seed": 0, "value": value}
    return pd.DataFrame([cells])


def origins(parts):
    return dict(zip(parts["file"], parts["made of"], strict=True))


def test_mnli_runs_predict_the_diagnostic_set_and_files_are_reproducible(tmp_path):
    sources = {name: file for name, file in SUBMISSION_FILES.items() if file.task == "mnli"}
    assert [*sources] == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    predicted = pd.concat(predictions(file, "a1") for file in sources.values())
    found, parts = glue_server.make_submission(predicted, best_run("mnli", "a1"))
    assert {name: len(rows) for name, rows in found.items()} == {
        name: file.rows for name, file in sources.items()
    }
    assert origins(parts)["AX.tsv"] == "run a1"
    assert [seed for seed in parts["seed"] if seed != EMPTY] == ["0"] * 3
    for name in ("one.zip", "two.zip"):
        glue_server.write_zip(tmp_path / name, found)
    require_taken(tmp_path / "one.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("name", "change", "value", "origin"),
    [
        ("RTE.tsv", lambda rows: rows.head(10), 0.5,
         "entailment: found 10 test examples, but the GLUE server expects 3,000"),
        ("RTE.tsv", lambda rows: rows, np.nan, "entailment: run a1 diverged"),
        ("CoLA.tsv", lambda rows: rows.assign(logit_1=np.inf), 0.5,
         "0: a prediction of run a1 is not finite"),
    ],
)  # fmt: skip
def test_a_file_that_no_run_predicts_holds_a_constant(name, change, value, origin):
    file = SUBMISSION_FILES[name]
    predicted, best = predictions(file, "a1"), best_run(file.task, "a1", value)
    found, parts = glue_server.make_submission(change(predicted), best)
    assert not found
    assert origins(parts)[name] == f"every prediction is {origin}"
    assert origins(parts)["QQP.tsv"] == "every prediction is 0: the task was not run"


def test_the_server_has_a_file_for_each_test_split_of_glue():
    for name, task in TASKS.items():
        of_task = [file for file in SUBMISSION_FILES.values() if file.task == name]
        if name not in sources.OFFICIAL_NAMES:
            assert [file.split for file in of_task] == [*task.test]
            assert sum(file.rows for file in of_task) == task.size.test_rows


def test_the_real_diagnostic_file_has_as_many_rows_as_the_server(glue_dir):
    file = SUBMISSION_FILES["AX.tsv"]
    task = TASKS[file.task]
    path = glue_dir / "diagnostic" / "diagnostic.tsv"
    assert len([*read_glue_rows(task, path, labelled=False)]) == file.rows


def test_a_submission_is_named_after_its_method_or_model_and_method():
    one = experiment(methods={"bitfit": [1e-3], "full": [1e-4]})
    assert list(glue_server.list_submissions(config(one), one)) == ["bitfit", "full"]
    two = experiment(paper="bitfit", models=["bert-base-cased", "roberta-base"])
    names = ["bert-base-cased/bitfit", "roberta-base/bitfit"]
    assert list(glue_server.list_submissions(config(two), two)) == names
    # Other rows than GLUE's are not submitted.
    own = {"files": {}, "text": ["text"], "metrics": ["spearmanr"]}
    for others in ({"source": "builtin"}, {"tasks": {"rte": own}}):
        assert glue_server.list_submissions(config(experiment(), **others), experiment()) == {}


@pytest.fixture
def known():
    settings = experiment(
        models=["bert-large-cased"],
        tasks=[name for name in TASKS if name != "wnli"],
        methods={method: [1e-3] for method in ("full", "bitfit", "layernorm", "random")},
    )
    return glue_server.expected_server_scores(config(settings, experiments={"layernorm": settings}))


@pytest.fixture
def dev():
    """The dev scores that the LayerNorm paper prints, as if they were ours."""
    table = papers.find_paper("layernorm").printed_tables(averages=False)["chosen"]
    return table.assign(run=table["method"] + "/" + table["task"], encoder_size=1)


@pytest.fixture
def given(tmp_path):
    """A function that writes the paper's Table 3 as the server's scores, and changes a row."""
    scores = papers.find_paper("layernorm").read_printed("scores").query("exhibit == 'table3'")
    scores = scores.assign(experiment="layernorm", value=100 * scores["value"], scale=100)

    def write(**changed):
        first, *others = scores[scores["task"] != "wnli"].to_dict("records")
        pd.DataFrame([first | changed, *others]).to_csv(tmp_path / "scores.csv", index=False)
        return tmp_path / "scores.csv"

    return write


def test_the_papers_own_test_scores_give_the_papers_p_values(dev, known, given):
    test = glue_server.replace_dev_scores(dev, glue_server.read_test_scores(given(), known))
    table = made("layernorm", "kruskal_wallis", {"chosen": dev, "test_scores": test})
    table = table.set_index("scores")
    for ours, theirs in (
        ("this run's table 2 (validation)", "paper's table2 (validation)"),
        ("this run's table 3 (test)", "paper's table3 (test)"),
        ("this run's table 2 + table 3", "paper's table2 + table3"),
    ):
        assert round(table["p_value"][ours], 5) == table["reported"][theirs]
        assert round(table["p_value"][theirs], 5) == table["reported"][theirs]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": "mnli"}, "there is no submission for experiment layernorm, model bert-large-"),
        ({"value": "high"}, "found value 'high' and scale '100', expected numbers"),
        ({"value": 91.2, "scale": 1}, "found value '91.2' and scale '1', expected numbers"),
    ],
)
def test_a_mistake_in_the_scores_is_one_line(known, given, changed, message):
    with pytest.raises(SubtuneError, match=f"test_scores: .*line 2: {message}"):
        glue_server.read_test_scores(given(**changed), known)


def test_a_file_without_a_column_or_no_file_is_named(given, tmp_path):
    pd.read_csv(given()).drop(columns="model").to_csv(tmp_path / "scores.csv", index=False)
    with refused(f"test_scores: {tmp_path / 'scores.csv'}: ", "no column 'model'"):
        glue_server.read_test_scores(tmp_path / "scores.csv")
    with pytest.raises(SubtuneError, match="no such file"):
        glue_server.read_test_scores(tmp_path / "none.csv")


def test_a_score_of_constants_counts_for_no_run(dev, known, given):
    scores = glue_server.read_test_scores(given(), known)
    diverged = (dev["method"] == "bitfit") & (dev["task"] == "rte")
    dev["value"] = dev["value"].mask(diverged)
    test = glue_server.replace_dev_scores(dev, scores)
    assert not ((test["method"] == "bitfit") & (test["task"] == "rte")).any()
    assert len(test) == len(dev) - 1
