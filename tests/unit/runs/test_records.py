"""Run records: whole or not there, and clear about what is wrong with one."""

import json

import pandas as pd
import pytest
import safetensors.torch

from subtune.errors import SubtuneError
from subtune.models import encoder
from subtune.runs import recording, records
from subtune.selections.random import Random
from tests.helpers import examples


@pytest.fixture
def spec():
    return examples.run_spec()


@pytest.fixture
def store(tmp_path, spec, tiny_bert):
    """A store with one real record in it."""
    record(tmp_path, [spec], tiny_bert)
    return tmp_path


def record(store, specs, directory):
    task = specs[0].tokens.data.task
    model = encoder.load(directory, task.num_labels)
    lines = []
    recording.train_and_record(
        specs, store, model, examples.tokens(task, directory), {}, lines.append
    )
    return lines


def test_a_record_holds_everything_and_nothing_else_is_left_in_the_store(store, spec):
    assert [path.name for path in store.iterdir()] == [spec.id]
    assert {path.name for path in (store / spec.id).iterdir()} == {
        "spec.json",
        "scores.json",
        "history.csv",
        "predictions.parquet",
        "changes.csv",
        "provenance.json",
        "delta.safetensors",
    }
    assert records.read_spec(store, spec.id) == spec
    predictions = pd.read_parquet(store / spec.id / "predictions.parquet")
    assert list(predictions) == ["split", "idx", "label", "logit_0", "logit_1"]
    delta = safetensors.torch.load_file(store / spec.id / "delta.safetensors")
    assert sum(values.numel() for values in delta.values()) == 2 * 2 * 32 + 66


def test_a_record_is_written_once(store, spec, tiny_bert):
    before = (store / spec.id / "scores.json").stat().st_mtime_ns
    record(store, [spec], tiny_bert)
    assert (store / spec.id / "scores.json").stat().st_mtime_ns == before


def test_a_run_that_fails_keeps_those_before_it_and_leaves_no_half_of_its_own(
    tmp_path, spec, tiny_bert, monkeypatch
):
    later = examples.run_spec(learning_rate=0.5)
    write = recording._write_files

    def full_disk(folder, spec, *rest):
        if spec == later:
            (folder / "scores.json").write_text("{")
            raise OSError(28, "No space left on device")
        write(folder, spec, *rest)

    monkeypatch.setattr(recording, "_write_files", full_disk)
    with pytest.raises(SubtuneError, match="No space left on device; runs recorded so far"):
        record(tmp_path, [spec, later], tiny_bert)
    assert records.is_recorded(tmp_path, spec.id)
    assert [path.name for path in tmp_path.iterdir()] == [spec.id]


def test_a_missing_record_says_how_to_get_it_back(tmp_path):
    with pytest.raises(SubtuneError, match=r"is missing; .*--forcerun train"):
        records.read_outcome(tmp_path, "0123456789ab")


def test_a_damaged_record_is_named(store, spec):
    (store / spec.id / "scores.json").write_text("{")
    with pytest.raises(SubtuneError, match=r"scores\.json is not readable JSON"):
        records.read_outcome(store, spec.id)


def test_a_record_under_a_wrong_name_is_found_out(store, spec):
    path = store / spec.id / "spec.json"
    data = json.loads(path.read_text())
    data["seed"] = 7
    path.write_text(json.dumps(data))
    with pytest.raises(SubtuneError, match="is the spec of run"):
        records.read_spec(store, spec.id)


def test_random_entries_are_recorded_with_their_indices(tmp_path, tiny_bert):
    spec = examples.run_spec(
        Random.model_validate({"random": {"as_many_as": ["pooler.dense.bias"], "within": ["**"]}})
    )
    record(tmp_path, [spec], tiny_bert)
    delta = safetensors.torch.load_file(tmp_path / spec.id / "delta.safetensors")
    indices = [values for name, values in delta.items() if name.endswith(".index")]
    assert sum(len(index) for index in indices) == 32
