"""Another workflow that includes this one, as its page shows."""

import fcntl
import json
import os
import re
import shutil
import sys

import pytest
import yaml

from tests.helpers.project import BIN, ROOT, SNAKEMAKE, TASK, job_counts, printed

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


@pytest.fixture
def other(folder, tmp_path):
    """A function that plans another folder with more rules, or another module statement."""
    others = shutil.ignore_patterns("results", "conclusion.txt")
    shutil.copytree(folder, tmp_path / "other", ignore=others)
    path = tmp_path / "other" / "Snakefile"

    def call(*arguments, old="", new="", rules="", **environment):
        path.write_text((folder / "Snakefile").read_text().replace(old, new) + rules)
        return called(path.parent, *arguments, **environment)

    call.folder = path.parent
    return call


STATEMENT = '        config["subtune"]\n'
OWN_RULE = """
rule own:
    output:
        "own.json",
    shell:
        "python tools/own.py {output}"
"""
OWN_TOOL = """
import json, os, sys
import helper
sys.stdout = open(sys.argv[1], "w")
print(json.dumps(dict(os.environ)))
"""


def test_rules_of_the_other_workflow_run_as_without_subtune(other, monkeypatch):
    """They import modules beside them, and have the same environment."""
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.delenv("TMPDIR", raising=False)
    (other.folder / "tools").mkdir()
    (other.folder / "tools" / "helper.py").touch()
    (other.folder / "tools" / "own.py").write_text(OWN_TOOL)
    (other.folder / "alone").write_text(OWN_RULE)
    found = []
    for arguments in (("own.json",), ("--snakefile", "alone", "own.json")):
        other(*arguments, rules=OWN_RULE)
        found.append(json.loads((other.folder / "own.json").read_text()))
        (other.folder / "own.json").unlink()
    with_subtune, alone = found
    names = {name for name in with_subtune if with_subtune[name] != alone.get(name)}
    assert {name for name in names if not name.startswith("SUBTUNE_")} == set()
    assert alone.keys() <= with_subtune.keys()


@pytest.mark.parametrize(
    "statement", ["prefix:\n        'sub'", "replace_prefix:\n        {'re': 'sub/re'}"]
)
def test_a_prefix_which_jobs_would_not_know_is_refused(other, statement):
    with pytest.raises(AssertionError) as error:
        other("-n", old=STATEMENT, new=f"{STATEMENT}    {statement}\n")
    assert "remove them, and set `results: sub/results` in the" in str(error.value)


def test_an_interpreter_with_spaces_in_its_path_is_refused(other, tmp_path, monkeypatch):
    (tmp_path / "a b").symlink_to(sys.prefix)
    python = str(tmp_path / "a b" / "bin" / "python")
    monkeypatch.setattr("tests.workflow.test_module.SNAKEMAKE", [python, *SNAKEMAKE[1:]])
    with pytest.raises(AssertionError, match="needs a Python interpreter whose path has no spaces"):
        other("-n")


def test_an_experiment_may_have_the_name_of_a_rule_of_the_other_workflow(other):
    said = other("-n", "subtune_layernorm", rules=OWN_RULE.replace("own:", "layernorm:"))
    assert job_counts(said)["subtune_layernorm"] == 1


def test_two_modules_have_their_own_results(other):
    module = (other.folder / "Snakefile").read_text()
    module = module[module.index("module subtune") : module.index("rule conclusion")]
    second = module.replace("subtune:", "second:").replace(
        "from subtune as subtune_", "from second as second_"
    )
    second = second.replace('config["subtune"]', 'config["subtune"] | {"results": "second"}')
    said = other("-n", "subtune_all", "second_all", rules=second)
    assert job_counts(said)["subtune_train"] == job_counts(said)["second_train"]


def test_jobs_of_a_module_and_a_comparison_do_not_share_results(other):
    (other.folder / "results").mkdir()
    with (other.folder / "results" / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(AssertionError) as error:
            other("--until", "subtune_dataset")
    assert "compare` is running in results; run this command again later" in str(error.value)


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
