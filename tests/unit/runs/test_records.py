"""Run records: whole or not there, and clear about what is wrong with one."""

import json
import math

import pandas as pd
import pytest
import safetensors.torch

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.encoder import load_model
from subtune.runs import recording, records, tables
from subtune.runs.records import write_checksums
from subtune.selections.entries import Random
from tests.helpers import examples
from tests.helpers.records import flip_a_bit, record

DIVERGES = {"learning_rate": 1e38, "schedule": "constant", "warmup": 0.0, "epochs": 3}


@pytest.fixture
def spec():
    return examples.run_spec()


@pytest.fixture
def store(tmp_path, spec, tiny_bert):
    """A store with one real record in it."""
    record(tmp_path, [spec], tiny_bert)
    return tmp_path


def planned(run):
    """A run's place in an experiment."""
    place = {"model": "tiny", "task": "sst2", "method": "layernorm", "train_rows": 12}
    others = {"fraction": None, "scope": None, "fold": None, "learning_rate": 1e-2}
    others |= {"experiment": "mine"}
    return {"run": run, **place, **others, "seed": 0, "flops": 1.0}


def test_a_record_holds_everything_and_nothing_else_is_left_in_the_store(store, spec):
    assert [path.name for path in store.iterdir()] == [spec.id]
    assert {path.name for path in (store / spec.id).iterdir()} == {
        "spec.json",
        "scores.json",
        "history.csv",
        "predictions.parquet",
        "epochs.parquet",
        "changes.csv",
        "provenance.json",
        "delta.safetensors",
        "checksums.json",
    }
    assert records.read_spec(store, spec.id) == spec
    assert 0.5 < records.read_outcome(store, spec.id)["share_read"] <= 1
    predictions = pd.read_parquet(store / spec.id / "predictions.parquet")
    assert list(predictions) == ["split", "idx", "label", "logit_0", "logit_1"]
    delta = safetensors.torch.load_file(store / spec.id / "delta.safetensors")
    assert sum(values.numel() for values in delta.values()) == 2 * 2 * 32 + 66


@pytest.mark.parametrize("task", ["sst2", "stsb", "mnli", "ud_ewt", "squad"])
def test_the_best_of_all_epochs_is_what_is_predicted(task, tmp_path, tiny_bert):
    spec = examples.run_spec(task=task, learning_rate=3e-2, epochs=4)
    record(tmp_path, [spec], tiny_bert)
    best = pd.DataFrame(records.read_predictions(tmp_path, spec.id))
    every = pd.DataFrame(records.read_predictions_of_epochs(tmp_path, spec.id))
    assert list(every) == ["epoch", *best.drop(columns=["label", "answers"], errors="ignore")]
    assert every["epoch"].unique().tolist() == [1, 2, 3, 4]
    epoch = every[every["epoch"] == records.read_outcome(tmp_path, spec.id)["best_epoch"]]
    epoch = epoch.drop(columns="epoch").reset_index(drop=True)
    pd.testing.assert_frame_equal(epoch, best[list(epoch)])


def test_a_record_is_written_once(store, spec, tiny_bert):
    before = (store / spec.id / "scores.json").stat().st_mtime_ns
    record(store, [spec], tiny_bert)
    assert (store / spec.id / "scores.json").stat().st_mtime_ns == before


def test_a_run_that_fails_keeps_those_before_it_and_leaves_no_half_of_its_own(
    tmp_path, spec, tiny_bert, monkeypatch
):
    later = examples.run_spec(learning_rate=0.5)
    to_stored = recording.to_stored

    def full_disk(delta):
        if records.is_recorded(tmp_path, spec.id):
            raise OSError(28, "No space left on device")
        return to_stored(delta)

    monkeypatch.setattr(recording, "to_stored", full_disk)
    with pytest.raises(SubtuneError, match="No space left on device; runs recorded so far"):
        record(tmp_path, [spec, later], tiny_bert)
    assert records.is_recorded(tmp_path, spec.id)
    assert [path.name for path in tmp_path.iterdir()] == [spec.id]


@pytest.mark.parametrize("epochs", [{"epochs": 12}, DIVERGES])
def test_epochs_and_sizes_are_those_of_the_tables(tmp_path, tiny_bert, epochs):
    spec = examples.run_spec(**epochs)
    record(tmp_path, [spec], tiny_bert)
    read = records.read_epochs(tmp_path, spec.id)
    history = pd.read_csv(tmp_path / spec.id / "history.csv", float_precision="round_trip")
    pd.testing.assert_frame_equal(pd.DataFrame(read), history)
    assert records.seconds_of(read) == history["seconds"].sum()
    changes = records.read_changes(tmp_path, spec.id)
    assert records.read_sizes(tmp_path, spec.id) == dict(
        zip(changes["parameter"], changes["size"], strict=True)
    )


READERS = {
    "spec.json": records.read_spec,
    "scores.json": records.read_outcome,
    "history.csv": records.read_epochs,
    "changes.csv": records.read_changes,
    "provenance.json": records.read_provenance,
    "delta.safetensors": records.read_delta,
}


SETS = [[0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("predicted", "one_answer"),
    [
        ({"logit_0": [0.1, -2.0, 0.3], "logit_1": [0.2, 1.0, 0.9]}, True),
        ({"logit_0": [0.1, 2.0, 0.3], "logit_1": [0.2, 1.0, 0.9]}, False),
        ({"logit_0": [2.5, 2.5, 2.5]}, True),
        ({"logit_0": [2.5, 2.5, 2.6]}, False),
        # Any number of labels: each is so or not.
        ({"label": SETS, "logit_0": [0.1, 2.0, 0.3], "logit_1": [-0.2, -1.0, -0.9]}, True),
        ({"label": SETS, "logit_0": [0.1, 2.0, 0.3], "logit_1": [0.2, -1.0, -0.9]}, False),
        ({"prediction": ["", "", ""]}, True),
        ({"prediction": [3, 3, 4]}, False),
    ],
)
def test_the_same_class_number_label_or_span_for_every_row_is_one_answer(
    tmp_path, predicted, one_answer
):
    (tmp_path / "run").mkdir()
    table = pd.DataFrame({"split": ["a", "a", "a"], "idx": range(3), "label": 0, **predicted})
    other_split = table.assign(split="b")
    whole = pd.concat([table, other_split], ignore_index=True)
    for rows, expected in ((whole, one_answer), (table[:0], False)):
        rows.to_parquet(tmp_path / "run" / "predictions.parquet", index=False)
        write_checksums(tmp_path / "run")
        read = records.read_predictions(tmp_path, "run")
        assert records.gives_one_answer(read) is expected


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_found_out_when_its_file_is_read(store, spec, name):
    flip_a_bit(store / spec.id / name)
    with pytest.raises(SubtuneError, match=f"{name} is not what was recorded; `subtune verify"):
        READERS[name](store, spec.id)


def test_random_entries_are_recorded_with_their_indices(tmp_path, tiny_bert):
    spec = examples.run_spec(
        Random.model_validate({"random": {"as_many_as": ["pooler.dense.bias"], "within": ["**"]}})
    )
    record(tmp_path, [spec], tiny_bert)
    delta = safetensors.torch.load_file(tmp_path / spec.id / "delta.safetensors")
    indices = [values for name, values in delta.items() if name.endswith(".index")]
    assert sum(len(index) for index in indices) == 32


@pytest.fixture
def diverged(tmp_path, tiny_bert):
    """A run on record that diverged, under results."""
    spec = examples.run_spec(**DIVERGES)
    record(tmp_path / "runs", [spec], tiny_bert)
    return spec.id


def test_a_run_that_diverged_is_on_record_without_a_score(tmp_path, diverged):
    store = tmp_path / "runs"
    text = (store / diverged / "scores.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["diverged"]
    outcome = records.read_outcome(store, diverged)
    assert outcome["diverged"] and outcome["best_epoch"] is None
    assert math.isnan(outcome["scores"]["validation"]["accuracy"])
    last = records.read_epochs(store, diverged)[-1]
    assert math.isnan(last["validation/accuracy"])
    assert set(last) == {"epoch", "train_loss", "seconds", "validation/accuracy"}
    assert records.read_spec(store, diverged).id == diverged
    [row] = tables.recorded_runs(store, {})[0].to_dict("records")
    assert row["diverged"] and math.isnan(row["score"]) and pd.isna(row["best_epoch"])


def test_a_run_that_diverged_has_a_row_in_the_table_of_runs(tmp_path, diverged, tiny_bert):
    store, other = tmp_path / "runs", examples.run_spec()
    record(store, [other], tiny_bert)
    about = {"experiment": "one", "model": "tiny", "task": "sst2", "method": "layernorm"}
    planned = [{"run": run, "fold": None, **about} for run in (other.id, diverged)]
    table = tables.table_of_runs(store, planned)
    assert table["diverged"].tolist() == [False, True]
    assert table["score"].isna().tolist() == [False, True]
    assert table["best_epoch"].isna().tolist() == [False, True]


@pytest.mark.parametrize("directory", ["results", "with [brackets] é"])
def test_runs_are_listed_under_the_names_that_a_configuration_gave(tmp_path, directory, tiny_bert):
    results = tmp_path / directory
    specs = [examples.run_spec(), examples.run_spec(learning_rate=0.5)]
    record(results / "runs", specs, tiny_bert)
    about = {"run": specs[0].id, "model": "NA", "method": "mine", "fraction": 0.2, "scope": "cv"}
    for folder, text in (("broken", b"\xff,\n"), ("one", None)):
        path = results / "experiments" / folder / "data" / "scores.csv"
        path.parent.mkdir(parents=True)
        path.write_bytes(text) if text else pd.DataFrame([about]).to_csv(path, index=False)
    runs, _ = tables.recorded_runs(results / "runs", tables.given_names(str(results)))
    assert runs.set_index("run").loc[specs[0].id, ["model", "method"]].tolist() == [
        "NA",
        "mine, top 20%, cv",
    ]
    other = runs.set_index("run").loc[specs[1].id]
    assert other["model"].startswith("local ") and other["method"] == "layernorm"


def test_nothing_is_predicted_with_a_run_that_diverged(tmp_path, diverged, tiny_bert, capsys):
    store = tmp_path / "runs"
    for options in ([], ["--adapter"]):
        arguments = ["export", diverged, "--to", str(tmp_path / "out"), *options]
        assert cli.main([*arguments, "--results", str(tmp_path)]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert diverged in line and "diverged in epoch 1" in line
    assert not (tmp_path / "out").exists()
    spec = records.read_spec(store, diverged)
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    tokens = examples.tokens(spec.tokens.data.task, tiny_bert)
    with pytest.raises(SubtuneError, match="diverged"):
        recording.predict_test_rows(store, [spec], model, tokens)
    scores = recording.score_on_training_rows(store, spec, model, tokens["train"])
    assert list(scores) == ["accuracy"] and math.isnan(scores["accuracy"])


# Earlier versions wrote every field.
ALL_FIELDS = """{"model": {"source": "files", "version": "9bd18841c7f1f8d133bc9c6135ff739d"},
"tokens": {"data": {"task": {"name": "mrpc", "text": ["sentence1", "sentence2"],
"label": "label", "labels": ["not_equivalent", "equivalent"], "metrics": ["f1", "accuracy"],
"evaluation": ["validation"]}, "source": "builtin", "version": "6acd1069a09cb6ac",
"splits": ["train", "validation"], "data_version": 1}, "tokenizer": "70d4ad241a93",
"max_length": 64, "tokens_version": 1},
"selection": {"top": {"ranking": "e1f17929bc6a", "fraction": 0.05}},
"recipe": {"learning_rate": 0.01, "batch_size": 4, "epochs": 3, "schedule": "linear",
"warmup": 0.1, "weight_decay": 0.01, "max_grad_norm": 1.0, "precision": "fp32"},
"seed": 0, "recipe_version": 5}"""


def test_a_record_with_all_fields_is_read_under_its_own_id(tmp_path):
    (tmp_path / "02d8e6e8e8e2").mkdir()
    (tmp_path / "02d8e6e8e8e2" / "spec.json").write_text(ALL_FIELDS)
    write_checksums(tmp_path / "02d8e6e8e8e2")
    spec = records.read_spec(tmp_path, "02d8e6e8e8e2")
    assert spec.tokens.data.task.name == "mrpc"
    assert spec.tokens.data.splits == ("train", "validation")
    assert spec.recipe.train_rows is None
    # The same run has a new id today.
    assert spec.id != "02d8e6e8e8e2"
    assert records.find(tmp_path, "02d8") == "02d8e6e8e8e2"
