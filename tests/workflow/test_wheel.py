"""The built package alone: it has the workflow inside it."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.helpers.project import ROOT


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """`subtune` of an environment with the wheel, and the other packages of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(wheel, check=True, timeout=300)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    [built] = folder.glob("*.whl")
    subprocess.run([*pip, "--python", python, "install", "--quiet", "--no-deps", built], check=True)
    packages = sysconfig.get_path("purelib")
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    # Packages on a path file come after those that are installed.
    (site / "others.pth").write_text(packages)
    return python.with_name("subtune")


def printed(program: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_demo_is_planned_without_a_clone(program, tmp_path):
    said = printed(program, tmp_path, "demo", "-n")
    assert int(re.search(r"\btrain\W+(\d+)", said)[1]) > 5


def test_jobs_find_their_scripts(program, tmp_path, tiny_bert):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    printed(program, tmp_path, "run", "examples/own.yaml", "-c2", "--until", "dataset")
    assert list(tmp_path.glob("results/*/datasets/*"))


@pytest.mark.nightly
def test_compare_goes_from_tables_to_the_answer(program, tmp_path, tiny_bert):
    files = [f"--{split}={ROOT}/examples/weather-{split}.csv" for split in ("train", "dev")]
    said = printed(program, tmp_path, "compare", *files, f"--model={tiny_bert}", "--minutes=0.1")
    assert "Which few parameters are worth fine-tuning?" in said
    assert list(tmp_path.glob("results/weather-*/report.html"))
