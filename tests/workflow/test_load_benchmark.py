"""The benchmark of many records, tasks and rows runs, and says of every step what it takes."""

import json
import subprocess
import sys

import pytest

from tests.helpers.project import ROOT

TABLES = ("answers", "choices", "paired_tests", "scores", "summary")
STEPS = {
    "tasks": {
        "subtune check", "subtune plan", "snakemake -n", "snakemake", "scores", "runs",
        "learning_curves", "figure front", "figure learning_curves", "summary", "report_page",
        *(f"table {name}" for name in TABLES),
    },
    "rows": {
        "subtune check", "snakemake", "model", "dataset", "tokens", "fisher", "4 training steps",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a run of two parts, at one small size each, writes."""
    folder = tmp_path_factory.mktemp("load")
    command = [sys.executable, "-m", "benchmarks.load", "--to", folder, "--sizes", "6"]
    done = subprocess.run(
        [*command, "--parts", *STEPS], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("part", STEPS)
def test_every_step_has_its_seconds_and_its_memory(written, part):
    measured = json.loads((written / "load.json").read_text())[part]
    assert {line["step"] for line in measured} == STEPS[part]
    assert all(line["size"] == 6 for line in measured)
    assert all(line["seconds"] > 0.1 and 10 < line["megabytes"] < 4000 for line in measured)


def test_records_that_are_there_train_nothing(written):
    measured = json.loads((written / "load.json").read_text())["tasks"]
    assert "train" not in {line["step"] for line in measured}


def test_a_table_and_a_plot_are_written(written):
    text = (written / "load.md").read_text()
    assert "| 6 tasks" in text and "| 6 rows" in text and "nan" not in text
    assert (written / "load.png").stat().st_size > 10_000
