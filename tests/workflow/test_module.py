"""Another workflow that includes this one, as its page shows."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from subtune.papers.shared import SUMMARY
from tests.helpers.project import ROOT, SNAKEMAKE, own_task, table

PAGE = ROOT / "docs" / "from-another-workflow.md"


def called(folder, *arguments, before=(), **environment) -> str:
    done = subprocess.run(
        [*before, *SNAKEMAKE, "-c2", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_bert):
    """The folder of the other workflow, once it has run."""
    folder = tmp_path_factory.mktemp("other")
    [snakefile] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (folder / "Snakefile").write_text(snakefile.replace("SNAKEFILE", str(ROOT / "Snakefile")))
    for split, rows in (("train", 24), ("validation", 12)):
        (folder / f"mood-{split}.csv").write_text(table("mood", split, rows))
    own = {
        "source": "builtin",
        "models": {"tiny": {"path": str(tiny_bert)}},
        "tasks": {"mood": own_task("mood")},
        "experiments": {
            "mine": {
                "models": ["tiny"],
                "tasks": ["mood"],
                "methods": {"full": [1e-3], "bitfit": [1e-2]},
                "epochs": 1,
                "batch_size": 8,
                "max_length": 16,
            }
        },
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump({"subtune": own}))
    called(folder)
    return folder


def test_a_rule_of_the_other_workflow_reads_the_answers(folder):
    assert (folder / "conclusion.txt").read_text() == "title\nmood\n"


def test_snakemakes_report_has_titles_and_captions_and_needs_no_network(folder, no_network):
    called(folder, "subtune_mine")
    called(folder, "subtune_mine", "--report", "report.html", before=no_network)
    report = (folder / "report.html").read_text()
    assert SUMMARY.title in report and "from the highest to the lowest" in report
    assert "which few parameters" in report.lower()


def test_the_catalogs_place_has_the_same_workflow(folder, tmp_path):
    """Snakemake's catalog asks for ``workflow/Snakefile``."""
    other = tmp_path / "Snakefile"
    text = (folder / "Snakefile").read_text()
    other.write_text(text.replace(str(ROOT / "Snakefile"), str(ROOT / "workflow" / "Snakefile")))
    assert "Nothing to be done" in called(folder, "--snakefile", other)


def test_datasets_come_from_a_cache_that_folders_share(folder, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    said = []
    for name in ("first", "second"):
        other = tmp_path / name
        other.mkdir()
        for path in (folder / "Snakefile", folder / "mine.yaml", *folder.glob("mood-*.csv")):
            shutil.copy(path, other)
        called_with = {"SNAKEMAKE_OUTPUT_CACHE": str(cache)}
        said.append(called(other, "--cache", "--until", "subtune_dataset", **called_with))
    assert "to cache" in said[0] and "to cache" not in said[1]
    assert len([*cache.iterdir()]) == 1
