"""A directory or a file appears whole under its name, or not at all."""

import os
import resource
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch

from subtune.core.errors import SubtuneError
from subtune.core.files import find_results, new_directory, write_atomically
from tests.helpers.messages import refused


@contextmanager
def almost_full_disk():
    """Files of at most 1,000 bytes, the tests' own output too: to be put around few lines."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_directory_has_its_name_only_once_it_is_whole(tmp_path):
    with new_directory(tmp_path / "a" / "b") as draft:
        (draft / "file").write_text("1")
        assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "b" / "file").read_text() == "1"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "a") as draft:
        (draft / "file").write_text("1")
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "write",
    [
        lambda file: file.write_text("1" * 10_000),
        lambda file: safetensors.torch.save_file({"weight": torch.ones(10_000)}, file),
    ],
    ids=["text", "tensors"],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, write):
    expected = pytest.raises(SubtuneError, match=r"cannot write .*a: .*File too large")
    with expected, almost_full_disk(), new_directory(tmp_path / "a") as draft:
        write(draft / "file")
    assert not list(tmp_path.iterdir())


def test_outputs_have_their_names_only_once_all_are_whole(tmp_path):
    table, folder = tmp_path / "a" / "table.csv", tmp_path / "folder"
    folder.mkdir()
    (folder / "old").touch()
    with write_atomically({"tables": [str(table)], "folder": str(folder)}) as outputs:
        [draft] = outputs["tables"]
        assert draft.endswith(".csv")
        with open(draft, "w") as file:
            file.write("1")
        (tmp_path / outputs["folder"]).mkdir()
        assert not table.exists() and (folder / "old").exists()
    assert table.read_text() == "1" and not list(folder.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_an_error_leaves_outputs_as_they_were(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("old")
    with pytest.raises(ZeroDivisionError), write_atomically({"table": str(table)}) as outputs:
        with open(outputs["table"], "w") as file:
            file.write("1")
        _ = 1 / 0
    assert table.read_text() == "old"
    assert [*tmp_path.iterdir()] == [table]


def test_only_drafts_that_have_been_left_for_a_day_are_removed(tmp_path):
    old, young, other = (tmp_path / f".{letter * 32}.table.csv" for letter in "abz")
    for draft in (old, young, other):
        draft.touch()
    for draft in (old, other):
        os.utime(draft, (0, 0))
    with (
        write_atomically({"table": str(tmp_path / "table.csv")}) as outputs,
        open(outputs["table"], "w"),
    ):
        pass
    assert {*tmp_path.iterdir()} == {young, other, tmp_path / "table.csv"}


@pytest.mark.parametrize(
    ("folders", "found"),
    [
        ([], "results"),
        (["runs"], "results"),
        (["mine/runs"], "results/mine"),
        (["runs", "mine/runs"], "results"),
        (["mine/runs", "mine/data", "notes"], "results/mine"),
    ],
)
def test_the_results_are_the_only_ones_here(folders, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in folders:
        (tmp_path / "results" / folder).mkdir(parents=True)
    assert find_results(None) == Path(found)
    assert find_results(Path("named")) == Path("named")


def test_results_in_several_directories_have_to_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a"):
        (tmp_path / "results" / name / "runs").mkdir(parents=True)
    with refused("--results: ", "missing, expected one of the directories results/a, results/b"):
        find_results(None)
    assert find_results(Path("results/a")) == Path("results/a")
