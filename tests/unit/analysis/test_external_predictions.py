"""Predictions that a user brings, scored on the rows of full fine-tuning's runs."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, f1_score

from subtune.analysis import chosen_runs, run_scores
from subtune.analysis.answer import find_answers
from subtune.analysis.candidates import summarise_methods
from subtune.analysis.judged_epochs import read_scored_predictions
from subtune.analysis.run_scores import score_external_predictions
from subtune.analysis.tables import set_types
from subtune.tasks.task import list_score_columns
from tests.helpers import examples
from tests.unit.analysis.test_run_scores import ROWS, collected, recorded, tables_of


def compare_external(store, task, external, seeds=1):
    """Return ``chosen`` and the row scores of full's runs, and of external predictions."""
    runs = {
        recorded(store, task, tables_of(task), seed=seed): {"seed": seed} for seed in range(seeds)
    }
    columns = list_score_columns([examples.TASKS[task]], {})
    best = chosen_runs.choose_rates(collected(store, task, runs))
    chosen = set_types(best.assign(margin=0.02, curve="converged", encoder_size=100), "scores")
    rows = run_scores.tabulate_pseudo_values(chosen, store, columns)
    if callable(external):
        row = chosen.iloc[0].to_dict()
        external = external(read_scored_predictions(store, row, "validation")[1])
    added, added_rows = score_external_predictions(chosen, store, columns, {task: external})
    return pd.concat([chosen, added], ignore_index=True), pd.concat([rows, added_rows])


@pytest.mark.parametrize("task", ["mrpc", "stsb", "toxic"])
def test_full_fine_tunings_own_predictions_lose_nothing_against_it(task, tmp_path):
    def own(table):
        return {"own": table.sort_values("idx").filter(like="logit_").to_numpy()}

    chosen, rows = compare_external(tmp_path, task, own)
    full, system = chosen.to_dict("records")
    assert system["value"] == full["value"]
    assert rows["rows_hash"].nunique() == 1
    assert np.array_equal(*rows[run_scores.PART_COLUMNS].to_numpy(float), equal_nan=True)
    found = summarise_methods(chosen, rows).set_index("method").loc["own"]
    assert (found["score"], found["difference"]) == (round(full["value"], 10), 0)
    assert pd.isna(found["encoder_size"]) and not found["on_front"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_system_is_scored_as_scikit_learn_and_scipy_score_it(seeds, tmp_path):
    rng = np.random.default_rng(1)
    guesses = rng.random((ROWS, 3)) - 0.5
    labels = {task: tables_of(task)[1]["label"] for task in ("mrpc", "stsb", "toxic")}
    expected = {
        "mrpc": f1_score(labels["mrpc"], guesses[:, :2].argmax(1)),
        "stsb": spearmanr(labels["stsb"], guesses[:, 0])[0],
        "toxic": f1_score(np.stack(labels["toxic"]), guesses > 0, average="micro"),
    }
    for task, score in expected.items():
        outputs = examples.TASKS[task].outputs
        external = {"guesses": guesses[:, :outputs]}
        chosen, rows = compare_external(tmp_path / task, task, external, seeds)
        systems = chosen[chosen["method"] == "guesses"]
        assert len(systems) == seeds
        assert systems["value"].to_numpy() == pytest.approx(score)
        assert set(systems["run"]) <= set(rows["run"])


def test_a_system_is_compared_but_never_what_to_train(tmp_path):
    truth = np.eye(2)[tables_of("mrpc")[1]["label"]]
    chosen, rows = compare_external(tmp_path, "mrpc", {"truth": truth}, seeds=3)
    assert accuracy_score(tables_of("mrpc")[1]["label"], truth.argmax(1)) == 1
    [answer] = find_answers(chosen, rows)
    assert (answer.compared.reference, answer.candidate) == ("Full", None)
    assert summarise_methods(chosen, rows).set_index("method").loc["truth", "sure"]
