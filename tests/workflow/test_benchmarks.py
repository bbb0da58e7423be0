"""The benchmarks run, and the ways that they compare compute the same."""

import json
import subprocess
import sys

import pytest

from tests.helpers.project import ROOT

pytestmark = pytest.mark.nightly

FEW = ["--rows", "8", "--tasks", "cola", "--models", "MiniLM", "--threads", "1"]


def benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def written(glue_dir, tmp_path_factory):
    """The folder that one run on 8 rows of each split writes."""
    folder = tmp_path_factory.mktemp("benchmarks")
    done = benchmarks("--glue-dir", glue_dir, "--to", folder, *FEW)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def found(written):
    return json.loads((written / "benchmarks.json").read_text())


def test_every_way_of_training_is_timed_and_scored(found):
    assert [(row["task"], row["way"]) for row in found["sweeps"]] == [
        ("CoLA", way) for way in ("Trainer loop", "subtune, one by one", "subtune, side by side")
    ]
    for row in found["sweeps"] + found["scaling"]:
        assert row["times_faster"] > 0 and row["flops_per_second"] > 0
    assert all(len(row["scores"]) == 4 for row in found["sweeps"])


def test_runs_side_by_side_score_as_one_by_one(found):
    _, alone, together = found["sweeps"]
    assert together["scores"] == pytest.approx(alone["scores"], abs=1e-6)


def test_the_peers_fisher_information_is_ours(found):
    assert {row["way"] for row in found["fisher"]} >= {"loop over examples", "subtune"}
    assert all(row["largest_difference"] < 1e-5 for row in found["fisher"])


def test_the_tables_and_the_plot_are_written(written):
    tables = (written / "benchmarks.md").read_text()
    assert tables.count("| CoLA ") >= 4 and "nan" not in tables
    assert (written / "benchmarks.png").stat().st_size > 10_000


def test_a_part_is_measured_again_and_the_others_stay(written, glue_dir, tmp_path):
    before = json.loads((written / "benchmarks.json").read_text())
    (tmp_path / "benchmarks.json").write_text(json.dumps(before | {"products": None}))
    done = benchmarks("--glue-dir", glue_dir, "--to", tmp_path, "--parts", "products")
    assert done.returncode == 0, done.stderr
    after = json.loads((tmp_path / "benchmarks.json").read_text())
    assert after.pop("products")["fp32"] > 0
    assert after == {name: rows for name, rows in before.items() if name != "products"}
