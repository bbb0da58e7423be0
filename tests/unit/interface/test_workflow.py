"""Calls of Snakemake, and runs to export."""

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface import workflow
from subtune.interface.workflow import run_to_export, train_all
from subtune.selections.specs import Fold
from tests.helpers import examples
from tests.helpers.records import record


def test_a_call_without_space_for_temporary_files_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**16))
    assert cli.main(["run", "mine.yaml", "-n"]) == 1
    assert re.fullmatch(r"TMPDIR: \S+ is full; free some space or .*\n", capsys.readouterr().err)


@pytest.fixture
def runs(tmp_path, tiny_bert):
    """A chosen run of a fold, a run that was not chosen, and a run without a fold."""
    plain = examples.run_spec()
    fold, other = (
        plain.replaced(recipe=plain.recipe.replaced(fold=Fold(of=2, number=0), learning_rate=rate))
        for rate in (1e-2, 1e-3)
    )
    record(tmp_path / "runs", [fold, other, plain], tiny_bert)
    path = tmp_path / Layout(".").data("mine", "chosen")
    path.parent.mkdir(parents=True)
    path.write_text(f"run,model,task,method\n{fold.id},tiny,sst2,layernorm\n")
    return fold.id, other.id, plain.id


@pytest.fixture
def exported(tmp_path):
    """A function that returns the run to export for a run and a configuration."""
    experiment = {"models": ["tiny"], "tasks": ["sst2"], "methods": {"layernorm": [1e-2]}}
    written = {
        "results": str(tmp_path),
        "models": {"tiny": {"path": "."}},
        "experiments": {"mine": experiment | {"epochs": 1, "batch_size": 4}},
    }

    def exported(run, path="mine.yaml", **changes):
        if path == "mine.yaml":
            (tmp_path / path).write_text(yaml.safe_dump(written | changes))
        return run_to_export(tmp_path, run, tmp_path / path, tmp_path)

    return exported


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(runs, exported):
    assert exported(runs[2], "none.yaml") == runs[2]


def test_the_run_that_snakemake_made_is_exported(runs, exported, tmp_path, monkeypatch):
    fold, _, plain = runs
    made = tmp_path / "experiments/mine/data/refit/tiny/sst2/layernorm.csv"

    def train_all(of, results, directory, targets):
        # The table of a run that is not recorded was removed.
        assert not made.exists() and targets == [str(made)]
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"run,model\n{plain},tiny\n")

    monkeypatch.setattr(workflow, "train_all", train_all)
    assert exported(fold) == plain
    made.write_text("run,model\n000000000000,tiny\n")
    assert exported(fold) == plain


def test_a_run_that_cannot_be_exported_gets_one_line(runs, exported):
    fold, other, _ = runs
    with pytest.raises(SubtuneError, match=r"with its method's chosen learning rate[^\n]*$"):
        exported(other)
    with pytest.raises(SubtuneError, match=r"--config: found .* with the results other, [^\n]*$"):
        exported(fold, results="other")
    with pytest.raises(
        SubtuneError, match=r"found no .*none.yaml, expected the run's config[^\n]*$"
    ):
        exported(fold, "none.yaml")


@pytest.mark.parametrize("last", ["\n".join(["a failed: no"] * 13), "SyntaxError: x"])
def test_a_call_that_fails_ends_with_the_failed_jobs_or_with_the_log(tmp_path, monkeypatch, last):
    script = f"import sys; sys.exit('''Error in rule a:\n{last}''')"
    monkeypatch.setattr(workflow, "snakemake_command", lambda *_: [sys.executable, "-c", script])
    with pytest.raises(SubtuneError) as error:
        train_all(tmp_path / "mine.yaml", tmp_path, tmp_path)
    log = f"training stopped; {tmp_path / 'snakemake.log'} ends with:\nError in rule a:\n"
    assert str(error.value) == ("" if "failed" in last else log) + last
