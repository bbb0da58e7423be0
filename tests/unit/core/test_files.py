"""A directory or a file appears whole under its name, or not at all."""

import fcntl
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch

from subtune.core.errors import SubtuneError
from subtune.core.files import (
    find_results,
    keep_comparisons_away,
    new_directory,
    remove_old_drafts,
    write_atomically,
    write_text,
)
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


def test_of_writers_of_the_same_directory_one_wins(tmp_path):
    """And nobody fails, whatever is at the target."""

    def write(number):
        for _ in range(50):
            with write_atomically({"folder": str(tmp_path / "folder")}) as outputs:
                for name in ("a", "b"):
                    Path(outputs["folder"], name).parent.mkdir(exist_ok=True)
                    Path(outputs["folder"], name).write_text(str(number))

    (tmp_path / "folder").write_text("a file")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [*tmp_path.iterdir()] == [tmp_path / "folder"]
    one, other = (path.read_text() for path in (tmp_path / "folder").iterdir())
    assert one == other


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_of_weights_have_the_mode_that_the_umask_allows(tmp_path, mask):
    before = os.umask(mask)
    try:
        with new_directory(tmp_path / "a") as draft:
            safetensors.torch.save_file({"weight": torch.ones(1)}, draft / "weights")
            (draft / "text").write_text("1")
    finally:
        assert os.umask(before) == mask
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()}
    assert modes == {0o666 & ~mask}


def test_only_drafts_that_nobody_has_changed_for_a_day_are_removed(tmp_path):
    """Wherever they are, and though nothing is written there again."""
    paths = [
        tmp_path / below / f".{letter * 32}.table.csv"
        for below in ("", "models", "data/mine", "data/mine/test")
        for letter in "abz"
    ]
    for draft in paths:
        draft.mkdir(parents=True)
        (draft / "file").touch()
        for path in (draft / "file", draft):
            if draft.name[1] != "b":
                os.utime(path, (0, 0))
    # A process writes to a file of this draft.
    os.utime(paths[0] / "file")
    remove_old_drafts(tmp_path)
    kept = {path for path in paths if path.name[1] != "a"}
    assert {path for path in paths if path.exists()} == kept | {paths[0]}


def test_calls_of_snakemake_and_a_comparison_do_not_share_results(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for _ in range(2):
        keep_comparisons_away(str(tmp_path / "a"))
    with (tmp_path / "a" / ".lock").open("ab") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "b" / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with refused("results: ", "is running in"):
            keep_comparisons_away(str(tmp_path / "b"))


def test_a_text_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="File too large"), almost_full_disk():
        write_text(tmp_path / "a", "1" * 10_000)
    assert not list(tmp_path.iterdir())


def test_results_that_cannot_be_locked_are_used_without_a_lock(tmp_path, monkeypatch):
    keep_comparisons_away(str(tmp_path / "missing"))
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(37, "No locks available")))
    keep_comparisons_away(str(tmp_path))


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
