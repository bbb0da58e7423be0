"""Zip files for the GLUE server: right ones, and damaged ones that are refused."""

import zipfile

import datasets
import numpy as np
import pandas as pd
import pytest

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.data import tsv
from subtune.data.load import load
from subtune.data.tokens import tokenize
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.glue_server import checking, server, writing
from subtune.models.load import load_model
from subtune.planning import submissions as planned
from subtune.runs import recording, rescoring
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.examples import config, experiment


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """A submission of nothing but constants."""
    path = tmp_path_factory.mktemp("submission") / "constants.zip"
    writing.write(path, {})
    return path


def damaged(right, path, change):
    """A copy of a right submission, its files changed as text: name to content."""
    with zipfile.ZipFile(right) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


ENTAILS = "entailment"
# In a file, this text is replaced by that, and the message has this.
REPLACED = [
    ("MRPC.tsv", "index\tprediction\n", "", r"line 1: found '0\\t0', expected the header"),
    ("SST-2.tsv", "index\t", "index,", "line 1: found 'index,prediction', expected the header"),
    ("WNLI.tsv", "145\t0\n", "", "found 145 rows, expected 146"),
    ("WNLI.tsv", "145\t0\n", "145\t0\n146\t0\n", "found 147 rows, expected 146"),
    ("CoLA.tsv", "7\t0\n8\t0\n", "7\t0\n7\t0\n", "line 10: found index '7', expected 8"),
    ("RTE.tsv", f"0\t{ENTAILS}\n", f"1\t{ENTAILS}\n", "line 2: found index '1', expected 0"),
    ("RTE.tsv", f"3\t{ENTAILS}", "3\t1", "line 5: prediction: found '1', expected one of entail"),
    ("QNLI.tsv", f"3\t{ENTAILS}", "3\tneutral", "line 5: prediction: found 'neutral', expected"),
    ("WNLI.tsv", "2\t0", f"2\t{ENTAILS}", "line 4: prediction: found 'entailment', expected one"),
    (
        "STS-B.tsv",
        "4\t0.000",
        "4\t5.2",
        "line 6: prediction: found '5.2', expected a number from 0",
    ),
    (
        "STS-B.tsv",
        "4\t0.000",
        "4\tnan",
        "line 6: prediction: found 'nan', expected a number from 0",
    ),
    ("MNLI-m.tsv", f"9\t{ENTAILS}", f"9\t{ENTAILS}\t1", "line 11: .*an index, a tab and a predict"),
    ("SST-2.tsv", "1\t0\n", "1\t\n", "line 3: prediction: found ''"),
]
# A file gets another name, or goes, or comes.
RENAMED = [
    ("AX.tsv", None, "AX.tsv: missing, and needed"),
    ("CoLA.tsv", "cola.tsv", "cola.tsv: found 'cola.tsv', expected .*did you mean 'CoLA.tsv'"),
    ("RTE.tsv", "answers/RTE.tsv", "answers/RTE.tsv: expected RTE.tsv at the top of the zip"),
    ("RTE.tsv", "notes.txt", "notes.txt: found 'notes.txt', expected one of"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), REPLACED)
def test_a_damaged_line_is_refused_with_its_place(name, old, new, message, right, tmp_path):
    def change(files):
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    path = damaged(right, tmp_path / "damaged.zip", change)
    with pytest.raises(SubtuneError, match=f"{name}: {message}"):
        checking.check(path)


@pytest.mark.parametrize(("old", "new", "message"), RENAMED)
def test_a_file_that_is_missing_or_not_expected_is_named(old, new, message, right, tmp_path):
    def change(files):
        content = files.pop(old)
        files.update({new: content} if new else {})

    path = damaged(right, tmp_path / "damaged.zip", change)
    with pytest.raises(SubtuneError, match=message):
        checking.check(path)


def test_a_file_that_is_twice_in_the_zip_is_named(right, tmp_path):
    path = damaged(right, tmp_path / "twice.zip", lambda files: None)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("RTE.tsv", "index\tprediction\n")
    with pytest.raises(SubtuneError, match=r"RTE\.tsv: found 2 times, expected once"):
        checking.check(path)


def test_a_zip_that_was_cut_off_and_bytes_that_are_not_text_are_named(right, tmp_path):
    cut = tmp_path / "cut.zip"
    cut.write_bytes(right.read_bytes()[:-400])
    with pytest.raises(SubtuneError, match="not a zip file, or it was cut off"):
        checking.check(cut)
    content = bytearray(damaged(right, tmp_path / "flipped.zip", lambda files: None).read_bytes())
    content[content.index(b"index\tprediction") + 3] ^= 0xFF
    (tmp_path / "flipped.zip").write_bytes(content)
    with pytest.raises(SubtuneError, match=r"CoLA\.tsv: damaged in the zip file"):
        checking.check(tmp_path / "flipped.zip")
    with zipfile.ZipFile(tmp_path / "latin.zip", "w") as archive:
        archive.writestr("RTE.tsv", b"index\tprediction\n0\tcaf\xe9\n")
    with pytest.raises(SubtuneError, match=r"RTE\.tsv: found bytes that are not UTF-8"):
        checking.check(tmp_path / "latin.zip")


def test_all_that_is_wrong_is_told_at_once(right, tmp_path, capsys):
    def change(files):
        del files["AX.tsv"]
        files["RTE.tsv"] = files["RTE.tsv"].replace("0\tentailment", "0\tmaybe")

    path = damaged(right, tmp_path / "both.zip", change)
    assert cli.main(["check-submission", str(path)]) == 1
    problems = capsys.readouterr().err.splitlines()
    assert len(problems) == 2 and all(line.startswith(f"{path}: ") for line in problems)


def test_the_command_says_that_a_right_submission_is_right(right, capsys):
    assert cli.main(["check-submission", str(right)]) == 0
    assert "11 files, 426,309 predictions, no problems found" in capsys.readouterr().out


def test_line_ends_of_windows_are_taken(right, tmp_path):
    def change(files):
        files["RTE.tsv"] = files["RTE.tsv"].replace("\n", "\r\n")

    checking.check(damaged(right, tmp_path / "windows.zip", change))


def test_the_same_predictions_make_the_same_file(right, tmp_path):
    writing.write(tmp_path / "again.zip", {})
    assert (tmp_path / "again.zip").read_bytes() == right.read_bytes()


def test_classes_are_words_for_inference_and_numbers_elsewhere_and_scores_stay_in_range():
    logits = np.array([[2.0, 1.0], [0.0, 1.0]])
    assert writing.in_words(server.FILES["RTE.tsv"], logits) == ["entailment", "not_entailment"]
    assert writing.in_words(server.FILES["WNLI.tsv"], logits) == ["0", "1"]
    scores = np.array([[-0.3], [2.34567], [7.0]])
    assert writing.in_words(server.FILES["STS-B.tsv"], scores) == ["0.000", "2.346", "5.000"]


def predictions(file, run):
    width = len(file.labels) if file.labels else 1
    logits = np.random.default_rng(0).normal(size=(file.rows, width))
    table = pd.DataFrame(logits, columns=[f"logit_{k}" for k in range(width)])
    return table.assign(run=run, split=file.split)


def best_run(task, run, value=0.5):
    cells = {"task": task, "run": run, "learning_rate": 1e-3, "seed": 0, "value": value}
    return pd.DataFrame([cells])


def test_the_diagnostic_set_is_predicted_by_the_mnli_model(tmp_path):
    files = [file for file in server.FILES.values() if file.task == "mnli"]
    assert [file.name for file in files] == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    predicted = {"mnli": pd.concat(predictions(file, "a1") for file in files)}
    found, parts = writing.submission(predicted, best_run("mnli", "a1"))
    assert {name: len(rows) for name, rows in found.items()} == {f.name: f.rows for f in files}
    assert dict(zip(parts["file"], parts["made_of"], strict=True))["AX.tsv"] == "run a1"
    writing.write(tmp_path / "mnli.zip", found)
    checking.check(tmp_path / "mnli.zip")


def test_what_was_not_predicted_is_a_constant_and_told():
    file = server.FILES["RTE.tsv"]
    few = predictions(file, "a1").head(10)
    found, parts = writing.submission({"rte": few}, best_run("rte", "a1"))
    told = dict(zip(parts["file"], parts["made_of"], strict=True))
    assert not found
    assert told["RTE.tsv"] == ("every row entailment: found 10 test rows, but the server has 3,000")
    assert told["QQP.tsv"] == "every row 0: the task was not run"


def test_a_run_that_diverged_predicts_nothing_for_the_server_and_is_named():
    overflown = predictions(server.FILES["CoLA.tsv"], "b2").assign(logit_1=np.inf)
    best = pd.concat([best_run("rte", "a1", np.nan), best_run("cola", "b2")])
    found, parts = writing.submission({"cola": overflown}, best)
    made_of = dict(zip(parts["file"], parts["made_of"], strict=True))
    assert not found
    assert made_of["RTE.tsv"] == "every row entailment: run a1 diverged"
    assert made_of["CoLA.tsv"] == "every row 0: a prediction of run b2 is not finite"


@pytest.mark.slow
def test_real_glue_becomes_a_submission_that_is_taken(glue_dir, tiny_bert, tmp_path):
    """A tiny model is trained on a few rows of each task, and predicts all its real test rows."""
    predicted, rows = {}, []
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
        predicted[name] = rescoring.on_test_rows(tmp_path, [spec], model, tokens_of_tests)
        rows.append((name, spec.id, spec.recipe.learning_rate, spec.seed, 0.5))
    names = ["task", "run", "learning_rate", "seed", "value"]
    found, parts = writing.submission(predicted, pd.DataFrame(rows, columns=names))
    assert set(found) == {"CoLA.tsv", "MRPC.tsv", "STS-B.tsv", "RTE.tsv", "WNLI.tsv"}
    writing.write(tmp_path / "real.zip", found)
    checking.check(tmp_path / "real.zip")
    assert parts["made_of"].str.startswith("run ").sum() == 5


def test_the_server_has_as_many_rows_of_a_task_as_its_test_splits():
    for name, task in TASKS.items():
        rows = [file.rows for file in server.FILES.values() if file.task == name]
        assert not rows or sum(rows) == task.size.test_rows


def test_the_real_diagnostic_set_is_mnlis_third_test_split(glue_dir, tmp_path):
    task = TASKS["mnli"]
    path = tsv.path_of(glue_dir, task, "diagnostic")
    rows = list(tsv.rows(path, task, labelled=False))
    assert len(rows) == server.ROWS["AX.tsv"]
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
