"""Predictions for new rows: those of the record, or an error in one line."""

import csv
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.core.user_code import hash_own_code
from subtune.data.sources import files_version
from subtune.data.subsets import WholeTable, write_table_description
from subtune.data.table_files import read_rows, write_rows
from subtune.methods import METHODS, SELECTION
from subtune.methods.baselines import Estimator
from subtune.runs import records
from subtune.runs.spec import DataSpec, Fold
from subtune.share import predict
from subtune.share.card import model_card
from subtune.share.export import export_model
from subtune.share.predict import find_refit, predict_rows, run_to_export
from subtune.tasks import TASKS
from subtune.training import recipe, recorded_runs
from tests.helpers import examples
from tests.helpers.peft_types import selection_of
from tests.helpers.records import (
    logits_on_record,
    on_record,
    record,
    recorded,
    recorded_baseline,
    recorded_embeddings,
)


def predicted_dev_rows(results, spec) -> pd.DataFrame:
    """Return a run's predictions for its task's dev rows."""
    task = TASKS[spec.tokens.data.task.name]
    rows = examples.rows_of(task)["validation"]
    if task.kind == "tokens":
        cells = [{task.text[0]: words} for words in rows["words"]]
    else:
        texts = task.of_kind.texts(rows.to_dict())
        cells = [dict(zip(task.text, text, strict=True)) for text in texts]
    placed = [(f"row {number}", row) for number, row in enumerate(cells)]
    return predict.predict_rows(Layout(str(results)), spec.id, task.spec(), placed, "rows")


def assert_as_recorded(results, spec) -> None:
    """Fail unless the predictions of a run follow from its recorded logits."""
    said, labels = predicted_dev_rows(results, spec), TASKS[spec.tokens.data.task.name].labels
    logits = logits_on_record(results, spec)
    if labels is None:
        assert said.columns.tolist() == ["prediction"]
        assert said["prediction"].to_numpy() == pytest.approx(logits[:, 0], abs=1e-5)
        return
    softmax = np.exp(logits - logits.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    assert said["prediction"].tolist() == [labels[k] for k in logits.argmax(1)]
    assert said.columns[1:].tolist() == [f"probability_{label}" for label in labels]
    assert said.iloc[:, 1:].to_numpy() == pytest.approx(softmax, abs=1e-6)


ADAPTER = SELECTION.validate_python({"adapter": {"type": "houlsby", "size": 4}})


@pytest.mark.parametrize(
    ("family", "task", "selection", "pooling"),
    [
        ("bert", "sst2", METHODS["layernorm"], None),
        ("bert", "stsb", METHODS["lora-I"], None),
        ("roberta", "stsb", METHODS["bitfit"], None),
        ("bert", "rte", METHODS["bitfit"], "mean"),
        ("roberta", "stsb", METHODS["full"], "mean"),
        ("bert", "rte", selection_of("IA3", "bert"), None),
        ("bert", "sst2", selection_of("PROMPT_TUNING", "bert"), "mean"),
        ("bert", "sst2", ADAPTER, None),
        ("gpt2", "rte", METHODS["bitfit"], None),
        ("bart", "sst2", METHODS["bitfit"], None),
        ("modernbert", "sst2", METHODS["lora-I"], "mean"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_predictions_are_those_of_the_record(
    family, task, selection, pooling, tmp_path, directory_of, monkeypatch
):
    # Only the extra `demo` has this package.
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    spec, _ = recorded(tmp_path, directory_of(family), selection, task, pooling=pooling)
    assert_as_recorded(tmp_path, spec)


@pytest.mark.parametrize(
    ("family", "task", "pooling"),
    [("bert", "sst2", "mean"), ("bert", "rte", None), ("mpnet", "stsb", "mean")],
)
def test_a_regression_on_embeddings_predicts_as_the_record_says(
    family, task, pooling, tmp_path, directory_of
):
    spec = recorded_embeddings(tmp_path, directory_of(family), task, pooling)
    assert_as_recorded(tmp_path, spec)


@pytest.mark.parametrize("task", ["sst2", "rte", "stsb"])
def test_tf_idf_predicts_as_the_record_says(task, tmp_path, tiny_bert):
    assert_as_recorded(tmp_path, recorded_baseline(tmp_path, tiny_bert, task))


@pytest.mark.parametrize("task", ["sst2", "rte"])
@pytest.mark.parametrize("reads", ["tf-idf", "embeddings"])
def test_an_estimator_predicts_as_the_record_says(reads, task, tmp_path, tiny_bert):
    forest = {"estimator": "sklearn.ensemble.RandomForestClassifier", "reads": reads}
    selection = Estimator.model_validate(forest)
    assert_as_recorded(tmp_path, recorded_baseline(tmp_path, tiny_bert, task, selection=selection))


def test_an_estimator_whose_code_has_changed_predicts_nothing(tmp_path, tiny_bert):
    path = tmp_path / "models.py"
    path.write_text("from sklearn.dummy import DummyClassifier\n")
    selection = Estimator(estimator=f"{path}:DummyClassifier", reads="texts")
    code = hash_own_code(selection.estimator)
    spec = recorded_baseline(tmp_path, tiny_bert, selection=selection, code=code)
    assert_as_recorded(tmp_path, spec)
    path.write_text("from sklearn.dummy import DummyClassifier  # a comment\n")
    with pytest.raises(SubtuneError, match=r"models.py:DummyClassifier has changed since"):
        predicted_dev_rows(tmp_path, spec)


@pytest.mark.parametrize("task", ["ud_ewt", "squad"])
def test_words_and_answers_are_predicted_as_the_record_says(task, tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["lora-I"], task)
    said = predicted_dev_rows(tmp_path, spec)["prediction"].tolist()
    table = on_record(tmp_path, spec)
    if task == "ud_ewt":
        said = [TASKS[task].labels.index(tag) for tags in said for tag in tags]
    assert said == table["prediction"].tolist()


def test_each_of_several_labels_has_a_probability_of_its_own():
    logits = np.array([[2.0, -1.0, 0.5], [-3.0, -0.1, -2.0]])
    said = predict._format_predictions(examples.TOXIC.spec(), logits)
    assert said["prediction"] == [["toxic", "threat"], []]
    assert said["probability_insult"] == pytest.approx(1 / (1 + np.exp([1.0, 0.1])))


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_bert):
    """Results with one run for `sst2`."""
    results = tmp_path_factory.mktemp("results")
    recorded(results, tiny_bert, METHODS["layernorm"])
    return results


def call(results, *arguments) -> int:
    [run] = (path.name for path in (results / "runs").iterdir())
    return cli.main(["predict", run[:6], *map(str, arguments), "--results", str(results)])


def test_a_table_keeps_its_columns(results, tmp_path, capfd):
    rows = [("7", "a good film,\nreally"), ("8", 'a "bad" one'), ("9", "a good film,\nreally")]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "sentence"), *rows])
    capfd.readouterr()
    assert call(results, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 0
    assert capfd.readouterr() == (f"3 rows were written to {tmp_path / 'out.csv'}\n", "")
    table = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert [*table[["id", "sentence"]].itertuples(index=False, name=None)] == rows
    assert set(table["prediction"]) <= set(TASKS["sst2"].labels)
    assert table.iloc[0, 2:].tolist() == table.iloc[2, 2:].tolist()
    assert table.filter(like="probability_").astype(float).sum(axis=1).to_numpy() == pytest.approx(
        1
    )
    (tmp_path / "other.jsonl").write_text('{"review": "a good film,\\nreally"}\n')
    columns = ("--text", "review", "--to", tmp_path / "other.csv")
    assert call(results, tmp_path / "other.jsonl", *columns) == 0
    other = pd.read_csv(tmp_path / "other.csv", dtype=str)
    assert other.columns[1:].tolist() == table.columns[2:].tolist()
    assert other["prediction"][0] == table["prediction"][0]


def test_a_row_without_text_is_named_and_has_no_prediction(results, tmp_path, capfd):
    (tmp_path / "in.csv").write_text("id,sentence\n1,a good film\n2, \n3,\n4,a bad one\n")
    assert call(results, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 0
    assert "in.csv: rows without text get no prediction: line 3, line 4\n" in capfd.readouterr().err
    (tmp_path / "whole.csv").write_text("id,sentence\n1,a good film\n4,a bad one\n")
    assert call(results, tmp_path / "whole.csv", "--to", tmp_path / "others.csv") == 0
    table, others = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("out", "others"))
    assert table["id"].tolist() == [1, 2, 3, 4]
    assert table.iloc[[1, 2], 2:].isna().all(axis=None)
    assert table.iloc[[0, 3]].to_csv(index=False) == others.to_csv(index=False)


BAD = {
    "no column of text": ("in.csv", "id,text\n1,a\n", "line 2: no column 'sentence'"),
    "empty texts alone": ("in.csv", "id,sentence\n1,\n2, \n", "line 2: the text is empty"),
    "no rows": ("in.csv", "id,sentence\n", "found no rows"),
    "a repeated column": ("in.csv", "note,sentence,note\n1,a,2\n", "found column 'note' twice"),
    "another format": ("in.pdf", "", "found '.pdf', expected one of"),
    "predictions": ("in.csv", "sentence,prediction\na,b\n", "'prediction' has a name reserved"),
    "probabilities": (
        *("in.csv", "sentence,probability_positive\na,b\n"),
        "in.csv: column 'probability_positive' has a name reserved",
    ),
}


@pytest.mark.parametrize(("name", "content", "problem"), BAD.values(), ids=BAD)
def test_a_table_that_does_not_fit_gets_a_line_and_nothing_is_written(
    results, tmp_path, capfd, name, content, problem
):
    (tmp_path / name).write_text(content)
    assert call(results, tmp_path / name, "--to", tmp_path / "out.csv") == 1
    [line] = capfd.readouterr().err.splitlines()
    assert problem in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_predictions_never_overwrite(results, tmp_path, capsys):
    (tmp_path / "out.csv").write_text("mine")
    assert call(results, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 1
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert call(results, tmp_path / "in.csv", "--to", tmp_path / "out.xlsx") == 1
    assert "out.xlsx', expected a name that ends in .csv" in capsys.readouterr().err


def test_without_a_run_or_its_model_there_is_a_line(results, tmp_path, capfd):
    shutil.copytree(results / "runs", tmp_path / "runs")
    (tmp_path / "in.csv").write_text("sentence\na good film\n")
    assert call(tmp_path, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 1
    [line] = capfd.readouterr().err.splitlines()
    assert "this directory is missing, expected the pretrained model" in line
    assert cli.main(["predict", str(tmp_path), "in.csv", "--to", "out.csv"]) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert f"{tmp_path}: this is a directory, expected a run id" in line


FOLDS = [Fold(of=3, number=number) for number in range(3)]


@pytest.fixture
def layout(tmp_path):
    return Layout(str(tmp_path))


@pytest.fixture
def plain(tmp_path, tiny_bert, layout):
    """A run without folds, with its model and token ids in the results."""
    spec, tokens = recorded(tmp_path, tiny_bert, METHODS["bitfit"])
    tokens.save_to_disk(layout.tokens(spec.tokens.key))
    return spec


@pytest.fixture
def folds(tmp_path, plain, tiny_bert):
    """The runs of three folds."""
    specs = [plain.replace(recipe=plain.recipe.replace(fold=fold)) for fold in FOLDS]
    record(tmp_path / "runs", specs, tiny_bert)
    return specs


@pytest.fixture
def choose(tmp_path, layout):
    """A function that writes an experiment's table of chosen runs."""

    def choose(specs, best_epochs, value=0.5):
        chosen = pd.DataFrame({"run": [spec.id for spec in specs], "best_epoch": best_epochs})
        about = {"model": "tiny", "task": "sst2", "method": "bitfit", "fraction": 1.0}
        about |= {"scope": None, "train_rows": 20, "decides": True, "value": value, "seconds": 1.0}
        path = tmp_path / Layout(".").data("mine", "chosen")
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen.assign(**about).to_parquet(path, index=False)

    return choose


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(plain, layout):
    assert run_to_export(layout, plain.id) == plain.id


def test_a_refit_has_the_chosen_rate_and_the_median_epoch(folds, choose, layout):
    choose(folds, [1, 2, 2])
    method, spec, _ = find_refit(layout, folds[1].id)
    expected = folds[0].recipe.replace(fold=None, refit=2)
    assert (method, spec.seed, spec.recipe) == ("bitfit", 0, expected)


def test_a_refit_is_trained_if_it_is_not_recorded(folds, choose, layout, tmp_path, capsys):
    choose(folds, [1, 1, 2])
    refit = run_to_export(layout, folds[2].id)
    store = tmp_path / "runs"
    assert records.read_spec(store, refit) == folds[0].make_refit(1)
    assert "retraining bitfit" in capsys.readouterr().err
    made = (store / refit / "spec.json").stat().st_mtime_ns
    assert run_to_export(layout, folds[0].id) == refit
    assert (store / refit / "spec.json").stat().st_mtime_ns == made
    assert not (tmp_path / "checkpoints" / refit).exists()
    # The comparison has gone on since then.
    choose(folds, [2, 2, 2])
    assert run_to_export(layout, folds[0].id) == folds[0].make_refit(2).id


def test_refits_and_predictions_hold_a_gpu_while_they_compute(
    folds, choose, layout, tmp_path, monkeypatch
):
    events = []

    @contextmanager
    def hold(report):
        before = {*records.list_run_ids(tmp_path / "runs")}
        events.append("held")
        yield
        events.append(len({*records.list_run_ids(tmp_path / "runs")} - before))

    monkeypatch.setattr(predict, "hold_gpu", hold)
    choose(folds, [1, 1, 2])
    task = records.read_spec(tmp_path / "runs", folds[0].id).tokens.data.task
    predict_rows(layout, folds[0].id, task, [("row 1", {"sentence": "a text"})], "rows")
    # The refit is recorded while the GPU is held, and the prediction records nothing.
    assert events == ["held", 1, "held", 0]


def test_an_export_that_is_impossible_is_refused_before_the_refit(tmp_path, tiny_bert, capfd):
    run = recorded_baseline(tmp_path, tiny_bert, fold=FOLDS[0]).id
    capfd.readouterr()
    command = ["export", run, "--to", str(tmp_path / "out"), "--results", str(tmp_path)]
    assert cli.main(command) == 1
    assert capfd.readouterr().err.startswith(f"run {run} has no pretrained model to export; ")


def test_an_interrupted_refit_goes_on_from_its_checkpoint(
    folds, choose, layout, tmp_path, monkeypatch
):
    def interrupt(*of):
        raise KeyboardInterrupt

    choose(folds, [1, 1, 2])
    monkeypatch.setattr(predict, "CHECKPOINT_SECONDS", 0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recorded_runs, "write_record", interrupt)
        run_to_export(layout, folds[0].id)
    refit = folds[0].make_refit(1).id
    kept = tmp_path / "checkpoints" / refit
    assert any(kept.iterdir()) and not records.is_recorded(tmp_path / "runs", refit)
    # All steps are in the checkpoint.
    monkeypatch.setattr(recipe._Group, "train_batch", interrupt)
    assert run_to_export(layout, folds[0].id) == refit
    assert records.is_recorded(tmp_path / "runs", refit) and not kept.exists()


def test_the_card_of_a_refit_has_the_mean_score_of_its_folds(
    folds, choose, layout, tmp_path, monkeypatch
):
    choose(folds, [1, 1, 1])
    refit = run_to_export(layout, folds[0].id)
    card = model_card(layout, refit, "out")
    outcomes = [records.read_outcome(tmp_path / "runs", spec.id) for spec in folds]
    mean = np.mean([of["scores"]["validation"]["accuracy"] for of in outcomes])
    assert f"| held-out folds | accuracy | {mean:.4f} |" in card
    assert "mean over 3 of 3 folds" in card
    diverged = [outcomes[0] | {"diverged": True}, *outcomes[1:]]
    by_run = dict(zip([spec.id for spec in folds], diverged, strict=True))
    read_outcome = records.read_outcome
    monkeypatch.setattr(
        records, "read_outcome", lambda store, run: by_run.get(run) or read_outcome(store, run)
    )
    assert "mean over 2 of 3 folds" in model_card(layout, refit, "out")


def test_the_card_of_a_refit_on_a_whole_table_has_the_score_of_the_folds_of_its_sample(
    folds, choose, layout, tmp_path, tiny_bert
):
    choose(folds, [1, 1, 1])
    data = folds[0].tokens.data.replace(version="more", splits=("train",))
    refit = folds[0].make_refit(1).replace(tokens=folds[0].tokens.replace(data=data))
    record(tmp_path / "runs", [refit], tiny_bert)
    card = model_card(layout, refit.id, "out")
    assert "| held-out folds | accuracy |" in card and "mean over 3 of 3 folds" in card
    assert "more examples than those of the folds, which are a sample." in card


def test_a_run_on_a_fold_of_an_unfinished_comparison_is_not_exported(folds, layout):
    with pytest.raises(SubtuneError, match="not finished; run `subtune compare` or"):
        run_to_export(layout, folds[0].id)


def test_a_method_that_peft_cannot_store_is_refused_before_it_is_trained_again(
    folds, layout, tmp_path
):
    """Without a table of chosen runs, training would be refused with another line."""
    with pytest.raises(SubtuneError, match="trained parameters other than PEFT modules"):
        export_model(layout, folds[0].id, tmp_path / "out", adapter=True)


def test_texts_that_do_not_fit_are_refused_before_a_method_is_trained_again(folds, layout):
    """Without a table of chosen runs, training would be refused with another line."""
    task = folds[0].tokens.data.task
    rows = [("text 1", {column: [] for column in task.text})]
    with pytest.raises(SubtuneError, match=r"^texts: text 1"):
        predict_rows(layout, folds[0].id, task, rows, "texts")


def test_a_run_that_cannot_be_exported_gets_one_line(folds, choose, layout):
    choose(folds[:1], [1])
    said = f"has a learning rate that was not chosen; use .*, such as {folds[0].id}$"
    with pytest.raises(SubtuneError, match=said):
        run_to_export(layout, folds[1].id)
    choose(folds, [None] * 3, value=np.nan)
    with pytest.raises(SubtuneError, match="'bitfit' diverged"):
        run_to_export(layout, folds[1].id)


def write_sample(folder, task, number):
    """Write a table of 30 rows and a sample of its first rows; return the table's path."""
    table, rows = folder / "table.csv", [("a text", task.labels[n % 2]) for n in range(30)]
    lines = [f"{text} {n},{label}" for n, (text, label) in enumerate(rows)]
    table.write_text("\n".join([f"{task.text[0]},{task.label}", *lines]))
    sample = Path(Layout(str(folder)).sample())
    write_rows(sample / "train.jsonl", [*read_rows(table)][:number])
    version = files_version({"train": table})
    whole = WholeTable(str(table), version, rows=30, encoding=None, sheet=None)
    write_table_description(sample, whole)
    return table


def test_a_refit_knows_its_sample_and_the_table_that_was_sampled(tmp_path):
    task = examples.TASKS["sst2"].spec()
    table, layout = write_sample(tmp_path, task, 10), Layout(str(tmp_path))
    version = files_version({"train": Path(layout.sample(), "train.jsonl")})
    run = examples.run_spec()
    data = DataSpec(task=task, source="files", version=version, splits=("train",))
    spec = run.replace(tokens=run.tokens.replace(data=data))
    assert extend(layout, spec) == "the 10 examples sampled from 30"
    table.write_text(table.read_text() + "\nmore,positive")
    changed = f"the 10 examples sampled from 30, because {table} has changed since"
    assert extend(layout, spec, 20) == changed
    # A later call has drawn another sample, or none.
    write_sample(tmp_path, task, 20)
    assert extend(layout, spec, 30) == "the examples of all folds"
    Path(layout.sample(), "train.jsonl").unlink()
    assert extend(layout, spec, 30) == "the examples of all folds"


def extend(layout, spec, number=5):
    same, which = predict._extend_training_set(layout, spec, number)
    assert same == spec
    return which
