"""The run that is exported after cross-validation: another one, which is trained when asked for."""

import pandas as pd
import pytest
import yaml

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface import workflow
from subtune.interface.workflow import run_to_export
from subtune.selections.specs import Fold
from tests.helpers import examples
from tests.helpers.records import record


@pytest.fixture
def runs(tmp_path, tiny_bert):
    """A run of a fold that was chosen, one that was not, one without a fold."""
    plain = examples.run_spec()
    fold, other = (
        plain.replaced(recipe=plain.recipe.replaced(fold=Fold(of=2, number=0), learning_rate=rate))
        for rate in (1e-2, 1e-3)
    )
    record(tmp_path / "runs", [fold, other, plain], tiny_bert)
    path = tmp_path / Layout(".").data("mine", "chosen")
    path.parent.mkdir(parents=True)
    chosen = {"run": fold.id, "model": "tiny", "task": "sst2", "method": "layernorm"}
    pd.DataFrame([chosen]).to_csv(path, index=False)
    return fold, other, plain


def configuration(tmp_path):
    path = tmp_path / "mine.yaml"
    experiment = {"models": ["tiny"], "tasks": ["sst2"], "methods": {"layernorm": [1e-2]}}
    settings = {"results": str(tmp_path), "models": {"tiny": {"path": "."}}}
    experiments = {"mine": experiment | {"epochs": 1, "batch_size": 4}}
    path.write_text(yaml.safe_dump(settings | {"experiments": experiments}))
    return path


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(runs, tmp_path):
    plain = runs[2].id
    assert run_to_export(tmp_path, plain, tmp_path / "none.yaml", tmp_path) == plain


def test_what_snakemake_made_is_exported(runs, tmp_path, monkeypatch):
    fold, _, plain = runs
    made = tmp_path / "experiments/mine/data/refit/tiny/sst2/layernorm.csv"

    def train_all(of, results, runs, directory, targets):
        # A table of a run that is not on record was taken away.
        assert not made.exists() and targets == [str(made)]
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"run,model\n{plain.id},tiny\n")

    monkeypatch.setattr(workflow, "train_all", train_all)
    assert run_to_export(tmp_path, fold.id, configuration(tmp_path), tmp_path) == plain.id
    made.write_text("run,model\n000000000000,tiny\n")
    assert run_to_export(tmp_path, fold.id, configuration(tmp_path), tmp_path) == plain.id


def test_a_mistake_gets_one_line(runs, tmp_path):
    fold, other, _ = runs
    with pytest.raises(SubtuneError, match=r"expected one with the chosen learning rate[^\n]*$"):
        run_to_export(tmp_path, other.id, configuration(tmp_path), tmp_path)
    elsewhere = tmp_path / "other.yaml"
    text = configuration(tmp_path).read_text()
    elsewhere.write_text(text.replace(f"results: {tmp_path}", "results: other"))
    with pytest.raises(
        SubtuneError, match=r"--config: found .* with the results other, exp[^\n]*$"
    ):
        run_to_export(tmp_path, fold.id, elsewhere, tmp_path)
    with pytest.raises(SubtuneError, match=r"found no none.yaml, expected the config[^\n]*$"):
        run_to_export(tmp_path, fold.id, tmp_path.__class__("none.yaml"), tmp_path)
