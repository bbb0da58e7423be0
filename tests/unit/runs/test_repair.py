"""`subtune verify`: every damage is found, and what is set aside is trained again."""

import os
import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from subtune import cli
from tests.helpers import examples
from tests.helpers.records import flip_a_bit, record

SPECS = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3, 3e-3)]
FILES = (
    "spec.json", "scores.json", "history.csv", "predictions.parquet", "changes.csv",
    "delta.safetensors", "provenance.json", "checksums.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, tiny_bert):
    """Results with three records of two sweeps."""
    results = tmp_path_factory.mktemp("results")
    record(results / "runs", SPECS, tiny_bert)
    for name, specs in (("one", SPECS[:2]), ("two", SPECS[2:])):
        path = results / "sweeps" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        rows = [{"run": spec.id, "runs_of_sweep": len(specs)} for spec in specs]
        pd.DataFrame(rows).to_csv(path, index=False)
    return results


@pytest.fixture
def results(recorded, tmp_path):
    shutil.copytree(recorded, tmp_path / "results")
    return tmp_path / "results"


def verified(results, capsys, *options):
    """The exit status of `subtune verify`, and what it says."""
    status = cli.main(["verify", "--results", str(results), *options])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_records_that_are_as_they_were_written_have_no_problems(results, capsys):
    said = f"{results}/runs: 3 record(s), no problems found\n"
    assert verified(results, capsys) == (0, said)


DAMAGES = {
    "flipped": flip_a_bit,
    "emptied": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize(("name", "damage"), list(product(FILES, DAMAGES)))
def test_every_damage_to_a_record_is_found(results, capsys, name, damage):
    DAMAGES[damage](results / "runs" / SPECS[0].id / name)
    status, said = verified(results, capsys)
    assert status == 1
    assert f"{SPECS[0].id}/" in said
    assert SPECS[1].id not in said
    assert "1 record(s) are damaged or missing, and 0 table(s)" in said


TABLES = {
    "empty": b"",
    "no runs": b"run,runs_of_sweep\n",
    "its first row": f"run,runs_of_sweep\n{SPECS[0].id},2\n".encode(),
    "another column": b"ran\n1\n",
    "bytes": b"\xff\x00\xfe",
    "a path": b"run,runs_of_sweep\n../../victim\x1b[31m,1\n",
}


@pytest.mark.parametrize("content", TABLES.values(), ids=TABLES)
def test_a_table_of_a_sweep_that_is_none_is_named_and_its_sweep_has_a_repair(
    results, capsys, content
):
    (results.parent / "victim").mkdir()
    table = results / "sweeps" / "one.csv"
    table.write_bytes(content)
    said = f"{table} is not the whole table of a sweep's runs"
    status, printed = verified(results, capsys)
    assert status == 1 and printed.splitlines()[0] == said
    status, printed = verified(results, capsys, "--repair")
    assert status == 0 and "\x1b" not in printed
    assert [path.name for path in (results / "repairs").iterdir()] == ["one.csv"]
    assert len(list((results / "runs").iterdir())) == len(SPECS)
    assert (results.parent / "victim").is_dir()


def test_a_pipe_in_the_place_of_a_table_or_of_a_records_file_is_waited_for_by_no_one(
    results, capsys
):
    for path in (results / "sweeps" / "one.csv", results / "runs" / SPECS[2].id / "history.csv"):
        path.unlink()
        os.mkfifo(path)
    status, said = verified(results, capsys)
    assert status == 1
    assert "one.csv is not the whole table" in said and "history.csv is not a file" in said


def test_a_link_that_leads_nowhere_in_the_place_of_a_record_is_set_aside(results, capsys):
    record = results / "runs" / SPECS[0].id
    shutil.rmtree(record)
    record.symlink_to(results / "nowhere")
    status, _ = verified(results, capsys, "--repair")
    assert status == 0
    assert not record.is_symlink() and (results / "damaged" / SPECS[0].id).is_symlink()


def test_a_record_of_another_run_in_its_place_is_found(results, capsys):
    first, second = (results / "runs" / spec.id for spec in SPECS[:2])
    shutil.rmtree(first)
    shutil.copytree(second, first)
    status, said = verified(results, capsys)
    assert status == 1
    assert f"is the spec of run {SPECS[1].id}" in said


def test_damaged_records_are_set_aside_and_their_sweeps_have_a_repair(results, capsys):
    damaged, gone = SPECS[0].id, SPECS[1].id
    flip_a_bit(results / "runs" / damaged / "delta.safetensors")
    shutil.rmtree(results / "runs" / gone)
    status, said = verified(results, capsys, "--repair")
    assert status == 0
    assert "Call snakemake as before: it trains what of this is still asked for" in said
    again = sorted([damaged, gone])
    assert f"{', '.join(again)}\n" in said
    [repair] = (results / "repairs").iterdir()
    assert repair.name == "one.csv"
    assert sorted(pd.read_csv(repair, dtype=str)["run"]) == again
    assert (results / "damaged" / damaged / "delta.safetensors").is_file()
    assert [path.name for path in (results / "runs").iterdir()] == [SPECS[2].id]


def test_what_was_set_aside_before_stays(results, capsys):
    run = SPECS[2].id
    for times in (1, 2):
        shutil.copytree(results / "runs" / run, results / "again")
        flip_a_bit(results / "runs" / run / "delta.safetensors")
        verified(results, capsys, "--repair")
        assert len(list((results / "damaged").iterdir())) == times
        (results / "again").rename(results / "runs" / run)


def test_where_there_are_no_records_that_is_said(tmp_path, capsys):
    assert verified(tmp_path, capsys) == (1, f"found no runs in {tmp_path}/runs\n")
