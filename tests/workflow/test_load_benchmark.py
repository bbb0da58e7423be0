"""The benchmark of many records, tasks and rows measures time and memory of every step."""

import json
import subprocess
import sys

import pytest

from tests.helpers.project import ROOT

STEPS = {
    "subtune check", "snakemake", "model", "dataset", "tokens", "fisher", "4 training steps",
}  # fmt: skip

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder that a run of the shortest part writes, at one small size."""
    folder = tmp_path_factory.mktemp("load")
    command = [sys.executable, "-m", "benchmarks.load", "--to", folder, "--sizes", "6"]
    done = subprocess.run(
        [*command, "--parts", "rows"], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_step_has_its_seconds_and_its_memory(written):
    measured = json.loads((written / "load.json").read_text())["rows"]
    assert {line["step"] for line in measured} == STEPS
    assert all(line["size"] == 6 for line in measured)
    assert all(line["seconds"] > 0.1 and 10 < line["megabytes"] < 4000 for line in measured)


def test_a_table_and_a_plot_are_written(written):
    text = (written / "load.md").read_text()
    assert "| 6 rows" in text and "nan" not in text
    assert (written / "load.png").stat().st_size > 10_000
