"""Scores on record against those that `evaluate` computes from the recorded predictions."""

import json
import math

import pandas as pd
import pytest

from subtune.analysis.judged_apart import NUMBERS, row_scores
from subtune.analysis.recomputation import require_scores_of_predictions
from subtune.core.errors import SubtuneError
from subtune.runs.integrity import write_checksums
from subtune.runs.records import EPOCHS
from subtune.tasks import TASKS
from subtune.tasks.task import columns_of
from tests.helpers import examples

# Predictions of four rows by task, and their scores, worked out by hand.
PREDICTED = {
    "mrpc": (
        {"label": [1, 0, 1, 1], "logit_0": [0.0, 1, 1, 0], "logit_1": [1.0, 0, 0, 1]},
        {"f1": 0.8, "accuracy": 0.75},
    ),
    "stsb": (
        {"label": [1.0, 2.0, 3.0, 4.0], "logit_0": [2.0, 4.0, 6.0, 8.0]},
        {"spearmanr": 1.0, "pearsonr": 1.0},
    ),
    "ud_ewt": ({"word": 0, "label": [3, 4, 5, 6], "prediction": [3, 4, 5, 5]}, {"accuracy": 0.75}),
    "squad": (
        {
            "label": ["a cat", "dogs", "b", "c"],
            "prediction": ["cat", "dogs run", "x", "no"],
            "answers": [["a cat"], ["no", "dogs"], ["b"], ["c"]],
        },
        {"exact_match": 0.25, "f1": (1 + 2 / 3) / 4},
    ),
}


def recorded(store, task, *, diverged=False, **changed):
    """A record of two epochs, of which the second is the best, with some scores changed."""
    predicted, scores = PREDICTED[task]
    spec = examples.run_spec(task=task)
    folder = store / spec.id
    folder.mkdir()
    (folder / "spec.json").write_text(spec.canonical())
    of_epochs = [dict.fromkeys(scores, 0.1), scores | changed]
    rows = [
        {"epoch": number, "train_loss": 0.5, "seconds": 1.0}
        | {f"validation/{name}": value for name, value in of_epoch.items()}
        for number, of_epoch in enumerate(of_epochs, start=1)
    ]
    pd.DataFrame(rows).to_csv(folder / "history.csv", index=False)
    outcome = {"best_epoch": 2, "scores": {"validation": scores}, "diverged": diverged}
    (folder / "scores.json").write_text(json.dumps(outcome))
    table = pd.DataFrame({"split": "validation", "idx": range(4)} | predicted)
    table.to_parquet(folder / "predictions.parquet", index=False)
    every = pd.concat({1: table, 2: table}, names=["epoch"]).reset_index("epoch")
    every = every.drop(columns=["label", "answers"], errors="ignore")
    every.to_parquet(folder / EPOCHS, index=False)
    write_checksums(folder)
    return spec.id


@pytest.mark.parametrize("task", PREDICTED)
def test_a_score_must_be_that_of_the_recorded_predictions(task, tmp_path):
    (tmp_path / "good").mkdir()
    run = recorded(tmp_path / "good", task)
    require_scores_of_predictions([run, run], tmp_path / "good")
    name, value = next(iter(PREDICTED[task][1].items()))
    run = recorded(tmp_path, task, **{name: value - 2e-9})
    words = f"run {run}: {task}: found {name} {value - 2e-9} of valid.*expected {value}"
    with pytest.raises(SubtuneError, match=f"{words}.*`subtune verify --res"):
        require_scores_of_predictions([run], tmp_path)


def test_runs_that_diverged_are_left_out(tmp_path):
    diverged = recorded(tmp_path, "mrpc", diverged=True, f1=0.1)
    require_scores_of_predictions([diverged], tmp_path)


@pytest.mark.parametrize("task", PREDICTED)
def test_parts_of_the_rows_have_values_whose_mean_is_near_the_score(task, tmp_path):
    run = recorded(tmp_path, task)
    [column] = columns_of([TASKS[task]], {})
    score = PREDICTED[task][1][column.metric]
    about = {"run": run, "judges": True, "judged_at": "2", "column": column.key}
    chosen = pd.DataFrame([about | {"value": score, "metric": column.metric}])
    [row] = row_scores(chosen, tmp_path, [column]).to_dict("records")
    values = [row[number] for number in NUMBERS if not math.isnan(row[number])]
    assert (row["run"], row["rows"], len(values)) == (run, 4, 4)
    assert sum(values) / 4 == pytest.approx(score, abs=0.2)
