"""Cross-validation in plans: which fold judges which seed, what is refused, what it costs."""

import csv

import pytest

from subtune import config
from subtune.core.errors import SubtuneError
from subtune.planning.cost import Estimates
from subtune.planning.plan import plan as plan_of
from subtune.selections.specs import Fold
from tests.helpers.plans import BASE

EXPERIMENT = {
    "models": ["minilm"],
    "tasks": ["mood"],
    "methods": {"bitfit": {"search": [1e-3, 1e-2]}, "embeddings": None},
    "seeds": [4, 7, 2, 9],
    "folds": 2,
    "epochs": 2,
    "batch_size": 8,
}
TASK = {"text": ["text"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
ROWS = [(f"a film of {number} words", ["good", "bad"][number % 2]) for number in range(20)]


@pytest.fixture
def plan(tmp_path):
    """Plan an experiment on a table, with other settings."""

    def planned(rows=ROWS, files=("train",), task=TASK, **changes):
        paths = {split: str(tmp_path / f"{split}.csv") for split in files}
        for number, path in enumerate(paths.values()):
            with open(path, "w", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *rows[number:]])
        models, experiment = BASE["models"], EXPERIMENT | changes
        tasks = {"mood": task | {"files": paths}}
        checked = config.check(
            {"models": models, "tasks": tasks, "experiments": {"mine": experiment}}
        )
        return checked, plan_of(checked)

    return planned


def test_weights_of_a_label_without_a_row_are_one_line(plan):
    task = TASK | {"labels": ["bad", "fair", "good"]}
    message = (
        r"experiments.mine.class_weights: task 'mood': found label 'fair' in none of 20 rows to "
        "train on, expected some with and some without it"
    )
    with pytest.raises(SubtuneError, match=message):
        plan(task=task, class_weights="balanced")
    plan(class_weights="balanced")
    plan(task=task)


def test_every_run_of_label_words_has_the_class_weights(plan):
    _, planned = plan(class_weights="balanced")
    runs = [of.run for of in planned.experiments["mine"]]
    assert {run.recipe.class_weights for run in runs} == {"balanced"}
    searching = runs[0].candidate(1e-3)
    assert searching.recipe.class_weights == "balanced"


def test_the_fold_follows_from_the_place_of_the_seed(plan):
    _, planned = plan()
    runs = planned.experiments["mine"]
    trained = {of.seed: of.run.recipe.fold for of in runs if of.method == "bitfit"}
    first, second, third, fourth = [
        Fold(of=2, number=number, partition=partition)
        for partition, number in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert trained == {4: first, 7: second, 2: third, 9: fourth}
    assert [of.fold for of in runs if of.method == "embeddings"] == [0, 1, 0, 1]
    assert len({of.run.id for of in runs}) == 8
    assert {of.train_rows for of in runs} == {10}
    [with_search] = {sweep.runs for sweep in planned.sweeps.values() if len(sweep.runs) == 4} - {
        tuple(of.run.id for of in runs if of.method == "embeddings")
    }
    assert with_search == tuple(of.run.id for of in runs if of.method == "bitfit")
    for of in runs[:4]:
        candidate = of.run.candidate(1e-3) if of.method == "bitfit" else None
        assert candidate is None or (candidate.seed, candidate.recipe.fold) == (4, first)


def test_numbers_of_training_rows_are_of_those_outside_the_fold(plan):
    _, planned = plan(train_rows=[5, "all"])
    limits = {(of.train_rows, of.run.recipe.train_rows) for of in planned.experiments["mine"]}
    assert limits == {(5, 5), (10, None)}


def test_a_test_file_judges_with_folds_too(plan):
    _, planned = plan(files=("train", "test"))
    task = planned.experiments["mine"][0].run.tokens.data.task
    assert task.evaluation == ("validation", "test")
    assert planned.experiments["mine"][0].run.tokens.data.splits == ("train", "test")


def test_a_search_leaves_the_dev_rows_to_judge_where_it_can(plan):
    def apart(**changes):
        settings = {"folds": None, "files": ("train", "validation")} | changes
        _, planned = plan(**settings)
        [found] = {of.run.recipe.search_folds for of in planned.experiments["mine"][:4]}
        return found

    assert apart() == 5
    assert apart(paper="bitfit") is None
    assert apart(files=("train", "validation", "test")) is None
    assert apart(rows=[*ROWS[::2], ROWS[1]]) == 5
    assert apart(rows=ROWS[:8]) is None
    assert apart(folds=2, files=("train",)) is None


def test_costs_are_of_the_rows_that_train_and_judge(plan):
    checked, with_folds = plan(seeds=[0, 1])
    of_folds = Estimates(checked, with_folds)
    checked, with_dev = plan(seeds=[0, 1], files=("train", "validation"), folds=None)
    whole = Estimates(checked, with_dev)
    costs = [
        estimates.run(planned.experiments["mine"][1].run.id).tokens
        for estimates, planned in ((of_folds, with_folds), (whole, with_dev))
    ]
    # Two folds train on 10 rows and judge by 10; dev rows: 20 and 19.
    assert costs[0] / costs[1] == pytest.approx(20 / 39, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"seeds": [0]},
            "experiments.mine.folds: found 2 with 1 seeds, expected a multiple of 2 seeds",
        ),
        (
            {"files": ("train", "validation")},
            "experiments.mine.folds: found 2 with tasks.mood.files.validation, expected one of the",
        ),
        (
            {"fractions": {"values": [0.5], "scopes": ["global"], "learning_rates": [1e-3]}},
            "experiments.mine.folds: found 2 with `fractions`, expected one of the two",
        ),
        (
            {"rows": ROWS[:2]},
            "experiments.mine.folds: found 2 with 1 rows of label 'good' to train on in task",
        ),
        (
            {"rows": [("same", "good"), ("same", "bad")] * 2},
            "experiments.mine.folds: found 2 with 1 different texts to train on in task 'mood'",
        ),
        ({"folds": None}, "tasks.mood.files: 'validation' is missing, expected a path, or `folds`"),
        ({"folds": 1}, "experiments.mine.folds: found 1, expected"),
    ],
)
def test_a_mistake_gets_one_line(plan, changes, said):
    with pytest.raises(SubtuneError) as refused:
        plan(**changes)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
