"""Run records: complete or absent, with clear messages about damage."""

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import safetensors.torch

from subtune import cli
from subtune.analysis.run_scores import require_scores_of_predictions
from subtune.analysis.tables import list_runs
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, write_text
from subtune.runs import records
from tests.helpers import examples
from tests.helpers.records import flip_a_bit, record

DIVERGES = {"learning_rate": 1e38, "schedule": "constant", "warmup": 0.0, "epochs": 3}
SPECS = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3, 3e-3)]
FIRST = SPECS[0].id
# The functions that read a record's files.
READERS = {
    "spec.json": records.read_spec,
    "scores.json": records.read_outcome,
    "history.csv": records.read_epochs,
    "changes.csv": records.read_parameter_changes,
    "provenance.json": records.read_provenance,
    "predictions.parquet": records.read_recorded_predictions,
    "epochs.parquet": records.read_predictions_of_epochs,
    "delta.safetensors": records.read_delta,
}
FILES = [*READERS, "checksums.json"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, tiny_bert):
    """Results with three records of two sweeps and a search."""
    results = tmp_path_factory.mktemp("results")
    record(results / "runs", SPECS, tiny_bert)
    first, second, third = (spec.id for spec in SPECS)
    found = {"0123456789ab": {"learning_rate": 0.1, "tried": [{"run": second, "score": 0.5}]}}
    for path, text in {
        "sweeps/one.csv": f"run\n{first}\n{second}\n",
        # Earlier sweeps have more columns. The key of a run whose rate was searched is no run's id.
        "sweeps/two.csv": f"key,run,diverged\nba9876543210,{third},False\n",
        "searches/s.json": json.dumps(found),
    }.items():
        write_text(results / path, text)
    return results


@pytest.fixture
def results(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "results")


def test_a_record_holds_everything_and_nothing_else_is_left(recorded):
    store = recorded / "runs"
    assert {path.name for path in store.iterdir()} == {spec.id for spec in SPECS}
    assert {path.name for path in (store / FIRST).iterdir()} == {*FILES}
    assert records.read_spec(store, FIRST) == SPECS[0]
    assert records.find_run_id(store, FIRST[:6]) == FIRST
    assert 0.5 < records.read_outcome(store, FIRST)["share_read"] <= 1
    predictions = records.read_recorded_predictions(store, FIRST)
    assert list(predictions) == ["split", "idx", "label", "logit_0", "logit_1"]
    delta = records.read_delta(store, FIRST)
    assert sum(values.size for values in delta.values()) == 2 * 2 * 32 + 66


@pytest.mark.parametrize("task", ["sst2", "stsb", "mnli", "ud_ewt", "squad"])
def test_the_best_of_all_epochs_is_what_is_predicted(task, tmp_path, tiny_bert):
    spec = examples.run_spec(task=task, learning_rate=3e-2, epochs=4)
    record(tmp_path, [spec], tiny_bert)
    best = pd.DataFrame(records.read_recorded_predictions(tmp_path, spec.id))
    every = pd.DataFrame(records.read_predictions_of_epochs(tmp_path, spec.id))
    assert list(every) == ["epoch", *best.drop(columns=["label", "answers"], errors="ignore")]
    assert every["epoch"].unique().tolist() == [1, 2, 3, 4]
    epoch = every[every["epoch"] == records.read_outcome(tmp_path, spec.id)["best_epoch"]]
    epoch = epoch.drop(columns="epoch").reset_index(drop=True)
    pd.testing.assert_frame_equal(epoch, best[list(epoch)])
    require_scores_of_predictions([spec.id], tmp_path)


def test_a_record_is_written_once(results, tiny_bert):
    path = results / "runs" / FIRST / "scores.json"
    before = path.stat().st_mtime_ns
    record(results / "runs", SPECS[:1], tiny_bert)
    assert path.stat().st_mtime_ns == before


@pytest.mark.fault(
    "files",
    "the disk is full, or a directory is not writable",
    "a one-line message; earlier records stay; logs and checkpoints are skipped",
)
def test_a_full_disk_keeps_earlier_records_and_leaves_no_half_of_one(
    tmp_path, tiny_bert, monkeypatch
):
    save_file = safetensors.torch.save_file

    def full_disk(delta, path):
        if records.is_recorded(tmp_path, FIRST):
            raise OSError(28, "No space left on device")
        save_file(delta, path)

    monkeypatch.setattr(safetensors.torch, "save_file", full_disk)
    with pytest.raises(SubtuneError, match="No space left on device; runs recorded so far"):
        record(tmp_path, SPECS, tiny_bert)
    assert [path.name for path in tmp_path.iterdir()] == [FIRST]


@pytest.mark.parametrize("epochs", [{"epochs": 12}, DIVERGES])
def test_epochs_and_sizes_are_those_of_the_tables(tmp_path, tiny_bert, epochs):
    spec = examples.run_spec(**epochs)
    record(tmp_path, [spec], tiny_bert)
    read = records.read_epochs(tmp_path, spec.id)
    history = pd.read_csv(tmp_path / spec.id / "history.csv")
    pd.testing.assert_frame_equal(pd.DataFrame(read), history)
    assert records.total_seconds(read) == history["seconds"].sum()
    changes = records.read_parameter_changes(tmp_path, spec.id)
    assert records.read_sizes(tmp_path, spec.id) == dict(
        zip(changes["parameter"], changes["size"], strict=True)
    )


SETS = {"label": [[0, 1], [1, 1], [0, 0]]}


@pytest.mark.parametrize(
    ("predicted", "one_answer"),
    [
        ({"logit_0": [0.1, -2.0, 0.3], "logit_1": [0.2, 1.0, 0.9]}, True),
        ({"logit_0": [0.1, 2.0, 0.3], "logit_1": [0.2, 1.0, 0.9]}, False),
        ({"logit_0": [2.5, 2.5, 2.5]}, True),
        ({"logit_0": [2.5, 2.5, 2.6]}, False),
        # A multi-label task: a row has each label or not.
        (SETS | {"logit_0": [0.1, 2.0, 0.3], "logit_1": [-0.2, -1.0, -0.9]}, True),
        (SETS | {"logit_0": [0.1, 2.0, 0.3], "logit_1": [0.2, -1.0, -0.9]}, False),
        ({"prediction": ["", "", ""]}, True),
        ({"prediction": [3, 3, 4]}, False),
    ],
)
def test_the_same_prediction_for_every_row_is_one_answer(tmp_path, predicted, one_answer):
    (tmp_path / "run").mkdir()
    table = pd.DataFrame({"split": ["a", "a", "a"], "idx": range(3), "label": 0, **predicted})
    other_split = table.assign(split="b")
    whole = pd.concat([table, other_split], ignore_index=True)
    for rows, expected in ((whole, one_answer), (table[:0], False)):
        rows.to_parquet(tmp_path / "run" / "predictions.parquet", index=False)
        records.write_checksums(tmp_path / "run")
        read = records.read_recorded_predictions(tmp_path, "run")
        assert records.has_constant_predictions(read) is expected


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_found_out_when_its_file_is_read(results, name):
    flip_a_bit(results / "runs" / FIRST / name)
    with pytest.raises(SubtuneError, match=f"{name} has the wrong checksum; `subtune verify"):
        READERS[name](results / "runs", FIRST)


def test_a_run_that_diverged_is_on_record_without_a_score(tmp_path, tiny_bert):
    spec, store = examples.run_spec(**DIVERGES), tmp_path / "runs"
    record(store, [spec], tiny_bert)
    diverged = spec.id
    text = (store / diverged / "scores.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["diverged"]
    outcome = records.read_outcome(store, diverged)
    assert outcome["diverged"] and outcome["best_epoch"] is None
    assert math.isnan(outcome["scores"]["validation"]["accuracy"])
    last = records.read_epochs(store, diverged)[-1]
    assert math.isnan(last["validation/accuracy"])
    assert set(last) == {"epoch", "train_loss", "seconds", "validation/accuracy"}
    assert records.read_spec(store, diverged).id == diverged
    [row] = list_runs(Layout(str(tmp_path)))[0].to_dict("records")
    assert row["diverged"] and math.isnan(row["score"]) and pd.isna(row["best_epoch"])


@pytest.mark.fault("files", "two jobs write the same record", "one complete record stays")
def test_jobs_that_record_the_same_run_leave_one_whole_record(recorded, tmp_path):
    def write(job):
        fill = partial(shutil.copytree, recorded / "runs" / FIRST, dirs_exist_ok=True)
        records.write_record_files(tmp_path, SPECS[0], fill)

    with ThreadPoolExecutor(8) as jobs:
        assert [*jobs.map(write, range(8))] == [None] * 8
    assert [path.name for path in tmp_path.iterdir()] == [FIRST]
    records.require_undamaged(tmp_path, FIRST)


def test_a_store_that_cannot_be_written_is_named_in_a_line(tmp_path, tiny_bert):
    (tmp_path / "runs").touch()
    expected = f"cannot write {tmp_path}/runs/{FIRST}: Not a directory; runs recorded so far are"
    with pytest.raises(SubtuneError, match=expected):
        record(tmp_path / "runs", SPECS[:1], tiny_bert)


def verified(results, capsys):
    """The exit status and output of `subtune verify`."""
    status = cli.main(["verify", "--results", str(results)])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_whole_records_have_no_problems(results, capsys):
    said = f"{results}/runs: 3 record(s), no problems found\n"
    assert verified(results, capsys) == (0, said)


DAMAGES = {
    "flipped": flip_a_bit,
    "emptied": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize(("name", "damage"), list(product(FILES, DAMAGES)))
@pytest.mark.fault(
    "files",
    "a record is lost or damaged",
    "named, with the command that repairs it; only its run is trained again",
)
def test_every_damage_to_a_record_is_found(results, capsys, name, damage):
    DAMAGES[damage](results / "runs" / FIRST / name)
    status, said = verified(results, capsys)
    assert status == 1
    assert f"{FIRST}/" in said and SPECS[1].id not in said
    assert "1 run(s) have a damaged or missing record." in said


@pytest.mark.parametrize(
    "content",
    [b"", b"ran\n1\n", b"a,run\n1\n", b"\xff\x00\xfe", b"run\n../../victim\n", b"[1]", b'{"s": 1}'],
)
@pytest.mark.parametrize("name", ["sweeps/one.csv", "searches/s.json"])
def test_a_damaged_output_names_no_runs(results, capsys, name, content):
    (results / name).write_bytes(content)
    assert verified(results, capsys)[0] == 0


def test_a_record_of_another_run_in_its_place_is_found(results, capsys):
    first, second = (results / "runs" / spec.id for spec in SPECS[:2])
    shutil.rmtree(first)
    shutil.copytree(second, first)
    status, said = verified(results, capsys)
    assert status == 1
    assert f"is the spec of run {SPECS[1].id}" in said


def test_the_files_to_delete_are_damaged_records_and_what_their_jobs_wrote(results, capsys):
    damaged, gone = SPECS[0].id, SPECS[1].id
    flip_a_bit(results / "runs" / damaged / "delta.safetensors")
    shutil.rmtree(results / "runs" / gone)
    status, said = verified(results, capsys)
    assert status == 1
    outputs = [f"{results}/{name}" for name in ("sweeps/one.csv", "searches/s.json")]
    assert said.endswith(f"rm -r {results}/runs/{damaged} {' '.join(outputs)}\n")
    # Neither table can be made without the lost record.
    with pytest.raises(SubtuneError, match=f"runs/{gone} is missing; `subtune verify"):
        records.require_recorded(results / "runs", outputs)
    records.require_recorded(results / "runs", [f"{results}/sweeps/two.csv", "no such file"])


def test_where_there_are_no_records_that_is_said(tmp_path, capsys):
    status, said = verified(tmp_path, capsys)
    assert status == 1 and said.startswith(f"{tmp_path}/runs: no recorded runs; ")
