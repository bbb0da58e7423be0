"""The built package alone: it has the workflow inside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.project import ROOT, printed


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """`subtune` of the built package, which finds the other packages in this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    pip = [sys.executable, "-m", "pip", *install, "--target", folder, ROOT]
    subprocess.run(pip, check=True, timeout=300)
    return folder / "bin" / "subtune"


def called(program: Path, folder: Path, *arguments: str) -> str:
    return printed([program, *arguments], folder, PYTHONPATH=str(program.parents[1]))


def test_the_demo_runs_without_a_clone(program, tmp_path):
    called(program, tmp_path, "run", "--profile", "demo", "--until", "dataset", "--", "bitfit")
    assert list(tmp_path.glob("results/demo/datasets/rte-*"))


@pytest.mark.nightly
def test_compare_goes_from_tables_to_the_answer(program, tmp_path, tiny_bert):
    files = [f"--{split}={ROOT}/examples/weather-{split}.csv" for split in ("train", "dev")]
    said = called(program, tmp_path, "compare", *files, f"--model={tiny_bert}", "--minutes=5")
    assert "within 0.02" in said
    assert list(tmp_path.glob("results/weather-*/report.html"))
