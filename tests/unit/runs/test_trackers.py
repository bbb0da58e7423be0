"""Recorded runs in TensorBoard and trackio, read back by these packages."""

import json
import os
import subprocess
import sys

import pytest

from subtune import cli
from subtune.runs import records
from subtune.selections.methods import METHODS
from tests.helpers.records import recorded

NAMES = ["sst2-bitfit", "sst2-full", "sst2-layernorm"]
HINT = 'call `pip install "subtune[trackers]"`'


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_bert):
    """Results with three runs of one task, one of which diverged."""
    results = tmp_path_factory.mktemp("results")
    recorded(results, tiny_bert, METHODS["full"], learning_rate=1e30)
    for method in ("layernorm", "bitfit"):
        recorded(results, tiny_bert, METHODS[method])
    return results


def runs(results, *options: str) -> int:
    return cli.main(["runs", "--results", str(results), *options])


def history(results, name: str) -> list[dict]:
    """The learning curve of the run that a name ends with."""
    return records.read_epochs(results / "runs", name.rpartition("-")[2])


def test_tensorboard_has_a_folder_of_each_run_and_is_written_once(results, tmp_path, capsys):
    reason = "the extra `trackers` is not installed"
    read = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=reason
    )
    target = tmp_path / "a" / "board"
    assert runs(results, "--tensorboard", str(target), "--method", "bitfit") == 0
    [first] = target.iterdir()
    files = {path.name: path.read_bytes() for path in first.iterdir()}
    capsys.readouterr()
    assert runs(results, "--tensorboard", str(target)) == 0
    assert capsys.readouterr().out == "3 run(s) are there now\n"
    assert files == {path.name: path.read_bytes() for path in first.iterdir()}
    folders = sorted(target.iterdir())
    assert [path.name.rpartition("-")[0] for path in folders] == NAMES
    for folder in folders:
        events = read.EventAccumulator(str(folder))
        events.Reload()
        rows = history(results, folder.name)
        for metric in ("train_loss", "validation/accuracy"):
            found = [(event.step, event.value) for event in events.Scalars(metric)]
            expected = [(row["epoch"], pytest.approx(row[metric], nan_ok=True)) for row in rows]
            assert found == expected
        settings = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        assert b"learning_rate" in settings and b"sst2" in settings


# Trackio reads the place of its files once, at import.
READ_BACK = """
import json, sys
from trackio import Api
from trackio.sqlite_storage import SQLiteStorage
print(json.dumps([
    [run.name, run.config, SQLiteStorage.get_logs("mine", run.name)] for run in Api().runs("mine")
]))
"""


def test_trackio_has_each_run_once_with_its_settings_and_curve(results, tmp_path):
    pytest.importorskip("trackio", reason="the extra `trackers` is not installed")
    main = "import sys; from subtune.cli import main; sys.exit(main())"

    def python(code: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "TRACKIO_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1"}
            # Runs stay on this machine all the same.
            | {"TRACKIO_SPACE_ID": "acme/elsewhere"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    logging = ["runs", "--results", str(results), "--trackio", "mine"]
    assert python(main, *logging, "--method", "bitfit") == "1 run(s) are there now\n"
    for _ in range(2):
        assert python(main, *logging) == "3 run(s) are there now\n"
    logged = json.loads(python(READ_BACK))
    assert sorted(name.rpartition("-")[0] for name, *_ in logged) == NAMES
    for name, settings, curve in logged:
        rows = history(results, name)
        assert [point["step"] for point in curve] == [row["epoch"] for row in rows]
        losses = [row["train_loss"] for row in rows]
        assert [point["train_loss"] for point in curve] == pytest.approx(losses, nan_ok=True)
        assert settings["learning_rate"] == (1e30 if "full" in name else 3e-2)
        assert settings["task"] == "sst2" and settings["diverged"] == ("full" in name)


@pytest.mark.parametrize("package", ["tensorboard", "trackio"])
def test_without_the_package_one_line_says_what_to_install(
    results, tmp_path, monkeypatch, capsys, package
):
    monkeypatch.setitem(sys.modules, package, None)
    assert runs(results, f"--{package}", str(tmp_path / "there")) == 1
    assert capsys.readouterr().err == f"--{package}: found no package {package}; {HINT}\n"
    assert not list(tmp_path.iterdir())
