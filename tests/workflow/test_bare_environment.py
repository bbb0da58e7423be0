"""Planning in an environment that has nothing but Snakemake, as on many login nodes."""

import re
import shutil
import subprocess
import venv
import zipfile

import pytest
import yaml

from tests.helpers.hub import COMMIT, MODEL, serving, write_repositories
from tests.helpers.project import ROOT, SNAKEMAKE, Project, job_counts, printed

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> list[str]:
    """Snakemake in an environment of its own."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(folder, with_pip=True)
    [pinned] = re.findall(r"^snakemake==\S+$", (ROOT / "requirements.lock").read_text(), re.M)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", pinned], check=True)
    return [str(python), "-m", "snakemake"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The files of this repository, without environments and results."""
    folder = tmp_path_factory.mktemp("clone") / "subtune"
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def test_the_workflow_is_linted(bare, clone):
    assert "Congratulations" in printed([*bare, "--lint"], clone)


def test_the_papers_are_planned_as_everywhere(bare, clone):
    here = job_counts(printed([*SNAKEMAKE, "-n"], clone))
    assert here["train"] > 100
    shutil.rmtree(clone / "results")
    assert job_counts(printed([*bare, "-n"], clone)) == here


@pytest.mark.parametrize(
    ("source", "package"),
    [({"hub": "someone/model", "revision": "main"}, "huggingface_hub"), (None, "safetensors")],
)
def test_a_model_that_only_a_package_can_read_needs_this_package(
    source, package, bare, clone, tiny_bert, tmp_path
):
    config = yaml.safe_load((ROOT / "examples" / "own.yaml").read_text())
    [name] = config["models"]
    config["models"][name] = source or {"path": str(tiny_bert)}
    (clone / "mine.yaml").write_text(yaml.safe_dump(config | {"results": str(tmp_path)}))
    with pytest.raises(AssertionError, match=f"{package}: not installed in Snakemake's environ"):
        printed([*bare, "-n", "--configfile", "mine.yaml"], clone)


def test_finished_results_have_a_report_with_what_snakemake_itself_needs_for_it(
    bare, tmp_path, tiny_bert
):
    project = Project(tmp_path / "project", tiny_bert)
    shutil.copytree(ROOT / "src", project.directory / "src")
    model = {"hub": MODEL, "revision": COMMIT, "pooling": "first"}
    project.config |= {"source": "hub", "hub_cache": "downloads", "models": {"tiny": model}}
    project.config["experiments"]["layernorm"] |= {"tasks": ["mrpc"], "fractions": None}
    (tmp_path / "hub").mkdir()
    with serving(write_repositories(tmp_path / "hub", tiny_bert)) as hub:
        project.environment = {"HF_ENDPOINT": hub, "NO_PROXY": "127.0.0.1"}
        project.run(project.config)
    subprocess.run([bare[0], "-m", "pip", "install", "-q", "snakemake[reports]"], check=True)
    project.snakemake = [*bare]
    assert "Nothing to be done" in project.run(project.config, "-n")
    project.run(project.config, "--report", str(tmp_path / "report.zip"))
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        assert "results/report.html" in archive.read("report/report.html").decode()
