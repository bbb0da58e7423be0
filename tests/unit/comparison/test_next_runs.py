"""What a comparison trains next, from its plan and from what is recorded."""

import math

from subtune.comparison.next_runs import Stage, rank_missing_runs
from tests.helpers.comparisons import SEARCHED, progress, score_id

FLOORS = {score_id("embeddings", fold): 0.6 for fold in (0, 1)}
MIDDLE = {score_id(method, fold, 1e-3): 0.7 for method in SEARCHED for fold in (0, 1)}
# Worse scores on both sides of the middle rate.
TUNED = MIDDLE | {score_id(method, 0, rate): 0.5 for method in SEARCHED for rate in (1e-4, 1e-2)}


def described(found) -> list[str]:
    """Each group of runs in turn: their methods, learning rates and folds."""
    return [
        " ".join(
            f"{run.method}"
            + (f"@{run.spec.recipe.learning_rate:g}" if run.spec.recipe.learning_rate else "")
            + f"/{run.spec.recipe.fold.number}"
            for run in runs
        )
        for _, runs in found
    ]


def test_floors_come_first_then_every_method_on_a_fold_before_the_next_one():
    assert described(rank_missing_runs(progress()))[:6] == [
        "embeddings/0",
        "full@0.001/0",
        "bitfit@0.001/0 layernorm@0.001/0",
        "full@0.001/1",
        "bitfit@0.001/1 layernorm@0.001/1 embeddings/1",
        "full@0.0001/0 full@0.01/0",
    ]


def test_other_rates_are_tried_after_all_folds():
    assert described(rank_missing_runs(progress(MIDDLE | FLOORS))) == [
        "full@0.0001/0 full@0.01/0",
        "bitfit@0.0001/0 bitfit@0.01/0 layernorm@0.0001/0 layernorm@0.01/0",
    ]


def test_a_search_goes_on_at_its_edge_and_then_a_better_rate_trains_on_the_other_folds():
    rising = TUNED | FLOORS | {score_id("bitfit", 0, 1e-2): 0.9}
    assert described(rank_missing_runs(progress(rising))) == ["bitfit@0.1/0"]
    best = rising | {score_id("bitfit", 0, 1e-1): 0.5}
    assert described(rank_missing_runs(progress(best))) == ["bitfit@0.01/1"]


def test_floors_on_fewer_rows_come_after_the_folds():
    found = progress(MIDDLE | FLOORS)
    floors = [run for run in found.planned if run.method == "embeddings"]
    fewer = [
        run.replace(
            spec=run.spec.replace(recipe=run.spec.recipe.replace(train_rows=2)), train_rows=2
        )
        for run in floors
    ]
    both = found._replace(planned=[*found.planned, *fewer])
    assert described(rank_missing_runs(both))[:2] == ["embeddings/0", "embeddings/1"]


def test_a_method_that_can_hardly_be_the_answer_is_last():
    unlikely = {("a", "bitfit"), ("a", "full")}
    found = described(rank_missing_runs(progress(FLOORS), unlikely))
    assert found[:3] == ["full@0.001/0", "layernorm@0.001/0", "full@0.001/1"]
    assert found[-1] == "bitfit@0.0001/0 bitfit@0.01/0"


def test_a_method_that_failed_is_left_out():
    found = described(rank_missing_runs(progress(FLOORS, left_out={("a", "bitfit")})))
    assert found[:2] == ["full@0.001/0", "layernorm@0.001/0"]
    assert not any("bitfit" in runs for runs in found)


def test_nothing_is_left_when_everything_is_recorded():
    assert rank_missing_runs(progress(TUNED | FLOORS)) == []


def test_each_model_has_the_first_folds_before_any_model_has_other_rates():
    floors = {score_id("embeddings", 0): 0.6, score_id("embeddings", 0, model="b"): 0.8}
    every = rank_missing_runs(progress(models=("a", "b")))
    first = [(run.model_name, run.method) for _, runs in every for run in runs][:3]
    # Before the floors are there, both are trained first. TF-IDF belongs to no model.
    assert sorted(first) == [("a", "embeddings"), ("a", "tf-idf"), ("b", "embeddings")]
    found = rank_missing_runs(progress(floors | {score_id("tf-idf", 0): 0.5}, models=("a", "b")))
    stages = [(rank.stage, runs[0].model_name) for rank, runs in found]
    # The model with the best floor is the first of each stage.
    assert [*dict.fromkeys(stages)] == [
        (Stage.FIRST_SEEDS, "b"),
        (Stage.FIRST_SEEDS, "a"),
        (Stage.RATES, "b"),
        (Stage.RATES, "a"),
    ]


def test_if_the_first_run_diverges_other_rates_are_tried_before_the_second_fold():
    lost = MIDDLE | FLOORS | {score_id("bitfit", 0, 1e-3): math.nan}
    del lost[score_id("bitfit", 1, 1e-3)]
    found = described(rank_missing_runs(progress(lost)))
    assert found[0] == "bitfit@0.0001/0 bitfit@0.01/0"
    better = lost | {score_id("bitfit", 0, 1e-4): 0.7, score_id("bitfit", 0, 1e-2): 0.5}
    better[score_id("bitfit", 0, 1e-5)] = 0.6
    found = described(rank_missing_runs(progress(better)))
    assert found[0] == "bitfit@0.0001/1"
