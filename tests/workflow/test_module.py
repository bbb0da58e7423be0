"""Another workflow that includes this one, as its page shows."""

import re
import shutil

import pytest
import yaml

from tests.helpers.project import ROOT, SNAKEMAKE, TASK, printed

pytestmark = pytest.mark.nightly

PAGE = ROOT / "docs" / "from-another-workflow.md"


def called(folder, *arguments, before=(), **environment) -> str:
    return printed([*before, *SNAKEMAKE, "-c2", *arguments], folder, **environment)


@pytest.fixture(scope="module")
def folder(finished_project, tmp_path_factory):
    """The folder of the other workflow, which makes the answers of a finished project again."""
    folder = tmp_path_factory.mktemp("other") / "folder"
    others = shutil.ignore_patterns("workflow", "profiles")
    shutil.copytree(finished_project.directory, folder, ignore=others)
    [snakefile] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (folder / "Snakefile").write_text(snakefile.replace("SNAKEFILE", str(ROOT / "Snakefile")))
    (folder / "mine.yaml").write_text(yaml.safe_dump({"subtune": finished_project.config}))
    (folder / "results" / "answers.csv").unlink()
    called(folder)
    return folder


def test_a_rule_of_the_other_workflow_reads_the_answers(folder):
    assert (folder / "conclusion.txt").read_text() == f"title\n{TASK}\nCoLA\nall tasks\n"


def test_datasets_come_from_a_cache_that_folders_and_the_catalogs_workflow_share(
    finished_project, folder, tmp_path
):
    """Snakemake's catalog asks for ``workflow/Snakefile``."""
    cache = tmp_path / "cache"
    cache.mkdir()
    own = finished_project.changed(tasks=[TASK], fractions=None) | {"test_scores": None}
    said = []
    for place in ("Snakefile", "workflow/Snakefile"):
        other = tmp_path / place.replace("/", " of ")
        other.mkdir()
        for path in folder.glob(f"{TASK}-*.csv"):
            shutil.copy(path, other)
        text = (folder / "Snakefile").read_text()
        (other / "Snakefile").write_text(text.replace(str(ROOT / "Snakefile"), str(ROOT / place)))
        (other / "mine.yaml").write_text(yaml.safe_dump({"subtune": own}))
        called_with = {"SNAKEMAKE_OUTPUT_CACHE": str(cache)}
        said.append(called(other, "--cache", "--until", "subtune_dataset", **called_with))
    assert "to cache" in said[0] and "to cache" not in said[1]
    assert len([*cache.iterdir()]) == 1
