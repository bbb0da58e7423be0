"""Refits: which run is exported, and the training on the rows of all folds."""

import numpy as np
import pandas as pd
import pytest

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.methods.names import METHODS
from subtune.runs import records
from subtune.runs.spec import Fold
from subtune.share.card import model_card
from subtune.share.refit import refit_of_run, run_to_export
from tests.helpers.records import record, recorded

FOLDS = [Fold(of=3, number=number) for number in range(3)]


@pytest.fixture
def layout(tmp_path):
    return Layout(str(tmp_path))


@pytest.fixture
def plain(tmp_path, tiny_bert, layout):
    """A run without folds, with its model and token ids in the results."""
    spec, tokens = recorded(tmp_path, tiny_bert, METHODS["bitfit"])
    tokens.save_to_disk(layout.tokens(spec.tokens.key))
    return spec


@pytest.fixture
def folds(tmp_path, plain, tiny_bert):
    """The runs of three folds."""
    specs = [plain.replaced(recipe=plain.recipe.replaced(fold=fold)) for fold in FOLDS]
    record(tmp_path / "runs", specs, tiny_bert)
    return specs


@pytest.fixture
def choose(tmp_path, layout):
    """A function that writes an experiment's table of chosen runs."""

    def choose(specs, best_epochs, value=0.5):
        chosen = pd.DataFrame({"run": [spec.id for spec in specs], "best_epoch": best_epochs})
        about = {"model": "tiny", "task": "sst2", "method": "bitfit", "fraction": 1.0}
        about |= {"scope": None, "train_rows": 20, "decides": True, "value": value}
        path = tmp_path / Layout(".").data("mine", "chosen")
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen.assign(**about).to_parquet(path, index=False)

    return choose


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(plain, layout):
    assert run_to_export(layout, plain.id) == plain.id


def test_a_refit_has_the_chosen_rate_and_the_median_epoch(folds, choose, layout):
    choose(folds, [1, 2, 2])
    method, spec = refit_of_run(layout, folds[1].id)
    expected = folds[0].recipe.replaced(fold=None, refit=2)
    assert (method, spec.seed, spec.recipe) == ("bitfit", 0, expected)


def test_a_refit_is_trained_if_it_is_not_recorded(folds, choose, layout, tmp_path, capsys):
    choose(folds, [1, 1, 2])
    refit = run_to_export(layout, folds[2].id)
    store = tmp_path / "runs"
    assert records.read_spec(store, refit) == folds[0].make_refit(1)
    assert "training bitfit once more" in capsys.readouterr().err
    made = (store / refit / "spec.json").stat().st_mtime_ns
    assert run_to_export(layout, folds[0].id) == refit
    assert (store / refit / "spec.json").stat().st_mtime_ns == made
    assert not (tmp_path / "checkpoints" / f"refit-{refit}").exists()
    # The comparison has gone on since then.
    choose(folds, [2, 2, 2])
    assert run_to_export(layout, folds[0].id) == folds[0].make_refit(2).id


def test_the_card_of_a_refit_has_the_mean_score_of_its_folds(folds, choose, layout, tmp_path):
    choose(folds, [1, 1, 1])
    card = model_card(layout, run_to_export(layout, folds[0].id), "out")
    outcomes = [records.read_outcome(tmp_path / "runs", spec.id) for spec in folds]
    mean = np.mean([of["scores"]["validation"]["accuracy"] for of in outcomes])
    assert f"| validation | accuracy | {mean:.4f} |" in card


def test_a_run_that_cannot_be_exported_gets_one_line(folds, choose, layout):
    choose(folds[:1], [1])
    with pytest.raises(SubtuneError, match=r"with its method's chosen learning rate[^\n]*$"):
        run_to_export(layout, folds[1].id)
    choose(folds, [None] * 3, value=np.nan)
    with pytest.raises(SubtuneError, match="'bitfit' diverged"):
        run_to_export(layout, folds[1].id)
