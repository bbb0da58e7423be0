"""Recorded runs of every kind: folds, refits, embeddings, and predictions for other rows."""

import math

import datasets
import numpy as np
import pandas as pd
import pytest

from subtune import cli
from subtune.analysis.run_scores import require_scores_of_predictions
from subtune.analysis.tables import list_runs, table_of_runs
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.data.load import load_rows, tokenize
from subtune.data.subsets import split_off_fold
from subtune.methods import METHODS
from subtune.models.encoder import load_encoder
from subtune.runs import records
from subtune.runs.spec import DataSpec, FitRecipe, Fold
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training import recorded_runs
from subtune.training.evaluation import compute_split_logits
from tests.helpers import examples
from tests.helpers.records import record, recorded_embeddings
from tests.unit.training.results import CLOSE, assert_same_files

FOLDS = [Fold(of=3, number=number) for number in range(3)]
CHANGES = ("delta.safetensors", "changes.csv")


def specs_of(task, method):
    spec = examples.run_spec(METHODS[method], task)
    if method == "embeddings":
        spec = spec.replace(recipe=FitRecipe(), tokens=spec.tokens.replace(apart=True))
    return [spec.replace(recipe=spec.recipe.replace(fold=fold)) for fold in FOLDS]


def train(store, specs, model, tokens, is_scored=False):
    scored = [spec.id for spec in specs if is_scored]
    recorded_runs.train_and_record(
        specs,
        store,
        model,
        tokens,
        {},
        lambda line, name=None: None,
        runs_scored_on_training_set=scored,
    )


def train_scores(store, spec):
    return records.read_outcome(store, spec.id)["scores"]["train"]


def without_seconds(store, run):
    return pd.DataFrame(records.read_epochs(store, run)).drop(columns="seconds")


@pytest.fixture(scope="module")
def model(tiny_bert):
    return load_encoder(tiny_bert, "sequence_classification", 2)


@pytest.fixture(scope="module")
def tokens(tiny_bert):
    return examples.tokens(TASKS["sst2"], tiny_bert, rows=20)


@pytest.mark.parametrize(
    ("task", "method"),
    [
        *(("sst2", "full"), ("stsb", "bitfit"), ("squad", "bitfit"), ("toxic", "bitfit")),
        ("rte", "embeddings"),
    ],
)
def test_runs_of_folds_are_runs_on_tables_divided_by_hand(task, method, tmp_path, tiny_bert):
    of_task, specs = examples.TASKS[task], specs_of(task, method)
    model = load_encoder(tiny_bert, of_task.of_kind.head, of_task.outputs)
    whole = examples.tokens(of_task, tiny_bert, rows=20, apart=method == "embeddings")
    only_train = datasets.DatasetDict({"train": whole["train"]})
    train(tmp_path / "folds", specs, model, only_train, is_scored=True)
    for spec in specs:
        every = Examples(whole["train"], model.tokens_read)
        others, judging = split_off_fold(every, of_task, spec.recipe.fold)
        by_hand = datasets.DatasetDict(
            {
                split: whole["train"].select(np.flatnonzero(np.isin(every.row, part.row_indices)))
                for split, part in (("train", others), ("validation", judging))
            }
        )
        plain = spec.replace(recipe=spec.recipe.replace(fold=None))
        store = tmp_path / f"{spec.recipe.fold.number}"
        train(store, [plain], model, by_hand, is_scored=True)
        assert_same_files(tmp_path / "folds", spec.id, store, plain.id, CHANGES)
        pd.testing.assert_frame_equal(
            without_seconds(tmp_path / "folds", spec.id), without_seconds(store, plain.id)
        )
        predicted = records.read_recorded_predictions(tmp_path / "folds", spec.id)
        assert {*predicted["idx"]} == {*judging.row_indices}
        assert train_scores(tmp_path / "folds", spec) == train_scores(store, plain)


@pytest.mark.parametrize("method", ["full", "lora-I"])
def test_a_refit_is_a_run_on_all_rows_that_is_cut(method, tmp_path, model, tokens):
    store = tmp_path / "runs"
    plain = examples.run_spec(METHODS[method], epochs=4, learning_rate=3e-3)
    train(store, [plain], model, tokens)
    best = records.read_outcome(store, plain.id)["best_epoch"]
    judged = plain.replace(recipe=plain.recipe.replace(fold=FOLDS[1], patience=2))
    refit = judged.make_refit(best)
    train(store, [refit], model, datasets.DatasetDict({"train": tokens["train"]}))
    assert_same_files(store, refit.id, store, plain.id, CHANGES)
    losses = without_seconds(store, plain.id)[["epoch", "train_loss"]].head(best)
    pd.testing.assert_frame_equal(without_seconds(store, refit.id), losses)
    outcome = records.read_outcome(store, refit.id)
    assert (outcome["best_epoch"], outcome["scores"], outcome["diverged"]) == (best, {}, False)
    assert not len(records.read_recorded_predictions(store, refit.id)["idx"])
    assert refit.id in set(list_runs(Layout(str(tmp_path)))[0]["run"])


def test_a_refit_of_embeddings_is_a_regression_on_all_rows(tmp_path, model, tokens):
    plain = examples.run_spec().replace(selection=METHODS["embeddings"], recipe=FitRecipe())
    refit = plain.replace(recipe=FitRecipe(fold=FOLDS[1])).make_refit(1)
    train(tmp_path, [plain, refit], model, tokens)
    assert_same_files(tmp_path, plain.id, tmp_path, refit.id, CHANGES)
    assert records.read_outcome(tmp_path, refit.id)["scores"] == {}


def test_runs_that_are_the_same_are_trained_once(tmp_path, tiny_bert):
    spec = examples.run_spec()
    lines = record(tmp_path, [spec, spec.replace(seed=0)], tiny_bert)
    assert lines[-1] == f"recorded 1/1: {spec.id}"


KINDS = ["sst2", "stsb", "ud_ewt", "squad"]


def recorded_task(store, directory, task, **recipe):
    spec = examples.run_spec(METHODS["bitfit"], task, **recipe)
    record(store, [spec], directory)
    model = load_encoder(directory, TASKS[task].of_kind.head, TASKS[task].outputs)
    return spec, model, examples.tokens(TASKS[task], directory)


def scores_one_by_one(store, spec, model, tokens, rows):
    """Scores of some rows, in the order of the split, one example at a time."""
    task = spec.tokens.data.task
    trained = recorded_runs.with_delta(spec, model, records.read_delta(store, spec.id))
    chosen = tokens.select(np.flatnonzero(np.isin(Examples(tokens, model.tokens_read).row, rows)))
    one_by_one = (Examples(chosen.select([n]), model.tokens_read) for n in range(len(chosen)))
    logits = np.concatenate(
        [compute_split_logits(trained, example, "fp32")[0] for example in one_by_one]
    )
    every = Examples(chosen, model.tokens_read)
    table = task.of_kind.prediction_table(every, task.of_kind.predict(every, logits))
    return task.of_kind.score(task, table)


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("train_rows", [None, 7])
def test_scores_on_training_rows_are_of_the_rows_that_trained(
    task, train_rows, tmp_path, tiny_bert
):
    spec, model, tokens = recorded_task(tmp_path, tiny_bert, task, train_rows=train_rows)
    assert "train" not in records.read_outcome(tmp_path, spec.id)["scores"]
    train(tmp_path / "scored", [spec], model, tokens, is_scored=True)
    scores = train_scores(tmp_path / "scored", spec)
    rows = len(Examples(tokens["train"], model.tokens_read).row_indices)
    # The first rows that a run's seed draws.
    trained = np.random.default_rng(spec.seed).permutation(rows)[:train_rows]
    expected = scores_one_by_one(tmp_path, spec, model, tokens["train"], trained)
    assert scores == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("task", KINDS)
def test_a_record_predicts_a_split_again(task, tmp_path, tiny_bert):
    spec, model, tokens = recorded_task(tmp_path, tiny_bert, task)
    tokens = type(tokens)({"test": tokens["validation"]})
    again = recorded_runs.predict_test_rows(tmp_path, [spec], model, tokens)
    on_record = pd.read_parquet(tmp_path / spec.id / "predictions.parquet")
    assert set(again.pop("run")) == {spec.id}
    columns = [*on_record.columns.drop(["split", "label", "answers"], errors="ignore")]
    tables = again[columns], on_record[columns]
    pd.testing.assert_frame_equal(*tables, check_dtype=False, **CLOSE)
    assert set(on_record) - set(again) - {"answers"} == {"label"}


@pytest.mark.parametrize("task", KINDS)
def test_test_rows_without_labels_are_predicted(task, tmp_path, tiny_bert):
    spec, model, _ = recorded_task(tmp_path, tiny_bert, task)
    task = TASKS[task]
    rows = load_rows(DataSpec(task=task, source="builtin", version="1", splits=("test",)))
    tokens = tokenize(task, rows, tiny_bert, 24, examples.doc_stride_of(task))
    tokens.save_to_disk(tmp_path / "tokens")
    tokens = datasets.load_from_disk(tmp_path / "tokens")
    table = recorded_runs.predict_test_rows(tmp_path, [spec], model, tokens)
    assert "label" not in table
    assert sorted(set(table["idx"])) == list(range(len(rows["test"])))
    table.to_parquet(tmp_path / "table.parquet")


def test_nothing_is_predicted_with_a_run_that_diverged(tmp_path, tiny_bert, capsys):
    settings = {"learning_rate": 1e38, "schedule": "constant", "warmup": 0.0, "epochs": 3}
    spec, model, tokens = recorded_task(tmp_path / "runs", tiny_bert, "sst2", **settings)
    # Tokenizing shows bars, unless an earlier test has switched them off.
    capsys.readouterr()
    for options in ([], ["--adapter"]):
        arguments = ["export", spec.id, "--to", str(tmp_path / "out"), *options]
        assert cli.main([*arguments, "--results", str(tmp_path)]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert spec.id in line and "diverged in epoch 1" in line
    assert not (tmp_path / "out").exists()
    with pytest.raises(SubtuneError, match="diverged"):
        recorded_runs.predict_test_rows(tmp_path / "runs", [spec], model, tokens)
    train(tmp_path / "scored", [spec], model, tokens, is_scored=True)
    scores = train_scores(tmp_path / "scored", spec)
    assert list(scores) == ["accuracy"] and math.isnan(scores["accuracy"])


def test_embeddings_predict_each_row_and_change_no_encoder(tmp_path, tiny_bert):
    spec, store = recorded_embeddings(tmp_path, tiny_bert), tmp_path / "runs"
    assert records.read_spec(store, spec.id) == spec
    predictions = records.read_recorded_predictions(store, spec.id)
    expected = np.array(examples.rows_of(TASKS["rte"])["validation"]["label"])
    assert (predictions["label"] == expected).all()
    assert set(records.read_sizes(store, spec.id)) == {"classifier.weight", "classifier.bias"}
    require_scores_of_predictions([spec.id], store)
    [listed] = list_runs(Layout(str(tmp_path)))[0].to_dict("records")
    assert (listed["method"], listed["train_rows"]) == ("embeddings", "all")
    assert pd.isna([listed[name] for name in ("learning_rate", "batch_size", "epochs")]).all()
    place = {"experiment": "mine", "model": "tiny", "task": "rte", "method": "embeddings"}
    table = table_of_runs(store, [{"run": spec.id, "fold": None, **place}])
    assert list(table["spec.selection"]) == ['{"embeddings":{}}']


@pytest.mark.parametrize("task", ["sst2", "rte"])
def test_embeddings_are_scored_on_training_rows_by_their_regression(task, tmp_path, tiny_bert):
    spec = recorded_embeddings(tmp_path, tiny_bert, task)
    model = load_encoder(tiny_bert, "sequence_classification", 2)
    tokens = examples.tokens(TASKS[task], tiny_bert, apart=spec.tokens.apart)
    train(tmp_path / "scored", [spec], model, tokens, is_scored=True)
    rows, logits = recorded_runs.predict_logits(tmp_path / "runs", spec, model, tokens["train"])
    expected = float((logits.argmax(1) == rows.row_labels).mean())
    assert train_scores(tmp_path / "scored", spec)["accuracy"] == pytest.approx(expected)
