"""Zip files for the GLUE server."""

import datasets
import numpy as np
import pandas as pd
import pytest

from subtune import glue_server
from subtune.data import files
from subtune.data.load import load, tokenize
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.glue_server import FILES, in_words
from subtune.models.load import load_model
from subtune.planning import submissions as planned
from subtune.runs import recording, rescoring
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.examples import config, experiment
from tests.helpers.submissions import require_taken


def test_classes_are_words_for_inference_and_numbers_elsewhere_and_scores_stay_in_range():
    logits = np.array([[2.0, 1.0], [0.0, 1.0]])
    assert in_words(FILES["RTE.tsv"], logits) == ["entailment", "not_entailment"]
    assert in_words(FILES["WNLI.tsv"], logits) == ["0", "1"]
    scores = np.array([[-0.3], [2.34567], [7.0]])
    assert in_words(FILES["STS-B.tsv"], scores) == ["0.000", "2.346", "5.000"]


def predictions(file, run):
    width = len(file.labels) if file.labels else 1
    logits = np.random.default_rng(0).normal(size=(file.rows, width))
    table = pd.DataFrame(logits, columns=[f"logit_{k}" for k in range(width)])
    return table.assign(run=run, split=file.split)


def best_run(task, run, value=0.5):
    cells = {"task": task, "run": run, "learning_rate": 1e-3, "seed": 0, "value": value}
    return pd.DataFrame([cells])


def test_the_mnli_model_predicts_the_diagnostic_set_and_alike_makes_the_same_file(tmp_path):
    files = [file for file in FILES.values() if file.task.name == "mnli"]
    assert [file.name for file in files] == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    predicted = pd.concat(predictions(file, "a1") for file in files)
    found, parts = glue_server.submission(predicted, best_run("mnli", "a1"))
    assert {name: len(rows) for name, rows in found.items()} == {f.name: f.rows for f in files}
    assert dict(zip(parts["file"], parts["made_of"], strict=True))["AX.tsv"] == "run a1"
    for name in ("one.zip", "two.zip"):
        glue_server.write_zip(tmp_path / name, found)
    require_taken(tmp_path / "one.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_what_was_not_predicted_is_a_constant_and_told():
    file = FILES["RTE.tsv"]
    few = predictions(file, "a1").head(10)
    found, parts = glue_server.submission(few, best_run("rte", "a1"))
    told = dict(zip(parts["file"], parts["made_of"], strict=True))
    assert not found
    assert told["RTE.tsv"] == ("every row entailment: found 10 test rows, but the server has 3,000")
    assert told["QQP.tsv"] == "every row 0: the task was not run"


def test_a_run_that_diverged_predicts_nothing_for_the_server_and_is_named():
    overflown = predictions(FILES["CoLA.tsv"], "b2").assign(logit_1=np.inf)
    best = pd.concat([best_run("rte", "a1", np.nan), best_run("cola", "b2")])
    found, parts = glue_server.submission(overflown, best)
    made_of = dict(zip(parts["file"], parts["made_of"], strict=True))
    assert not found
    assert made_of["RTE.tsv"] == "every row entailment: run a1 diverged"
    assert made_of["CoLA.tsv"] == "every row 0: a prediction of run b2 is not finite"


@pytest.mark.slow
def test_real_glue_becomes_a_submission_that_is_taken(glue_dir, tiny_bert, tmp_path):
    """A tiny model is trained on a few rows of each task, and predicts all its real test rows."""
    predicted, rows = [], []
    for name in ("cola", "mrpc", "stsb", "rte", "wnli"):
        task = TASKS[name]
        spec = examples.run_spec(task=name, train_rows=8)
        labelled = DataSpec(task=task, source="tsv", version="1")
        tests = DataSpec(task=task, source="tsv", version="1", splits=task.test)
        real = load(labelled, glue_dir=str(glue_dir))
        few = {split: real[split].select(range(20)) for split in task.labelled}
        tokens = tokenize(task, datasets.DatasetDict(few), tiny_bert, 24)
        tokens_of_tests = tokenize(task, load(tests, glue_dir=str(glue_dir)), tiny_bert, 24)
        model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, task.outputs)
        recording.train_and_record([spec], tmp_path, model, tokens, {}, lambda line: None)
        predicted.append(rescoring.on_test_rows(tmp_path, [spec], model, tokens_of_tests))
        rows.append((name, spec.id, spec.recipe.learning_rate, spec.seed, 0.5))
    names = ["task", "run", "learning_rate", "seed", "value"]
    found, parts = glue_server.submission(pd.concat(predicted), pd.DataFrame(rows, columns=names))
    assert set(found) == {"CoLA.tsv", "MRPC.tsv", "STS-B.tsv", "RTE.tsv", "WNLI.tsv"}
    glue_server.write_zip(tmp_path / "real.zip", found)
    require_taken(tmp_path / "real.zip")
    assert parts["made_of"].str.startswith("run ").sum() == 5


def test_the_server_has_as_many_rows_of_a_task_as_its_test_splits():
    for name, task in TASKS.items():
        rows = [file.rows for file in FILES.values() if file.task.name == name]
        assert not rows or sum(rows) == task.size.test_rows


def test_the_real_diagnostic_set_is_mnlis_third_test_split(glue_dir, tmp_path):
    task = TASKS["mnli"]
    path = files.glue_path(glue_dir, task, "diagnostic")
    rows = list(files.glue_rows(path, task, labelled=False))
    assert len(rows) == glue_server.ROWS["AX.tsv"]
    assert rows[0]["premise"] == "The cat sat on the mat."


def test_a_submission_is_named_after_its_method_and_where_models_are_several_after_both():
    one = experiment(methods={"bitfit": [1e-3], "full": [1e-4]})
    assert list(planned.submissions(config(one), one)) == ["bitfit", "full"]
    two = experiment(paper="bitfit", models=["bert-base-cased", "roberta-base"])
    assert list(planned.submissions(config(two), two)) == [
        "bert-base-cased/bitfit",
        "roberta-base/bitfit",
    ]


def test_what_is_not_glue_is_not_submitted():
    of = experiment()
    assert planned.submissions(config(of, source="builtin"), of) == {}
    own = {"files": {}, "text": ["text"], "metrics": ["spearmanr"]}
    assert planned.submissions(config(of, tasks={"rte": own}), of) == {}
