"""Scores, costs and answers, compared with numbers worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import candidates, intervals
from subtune.analysis.answer import ALL_TASKS
from subtune.analysis.run_scores import NO_ROWS, PART_COLUMNS
from subtune.exhibits.answer_tables import answers_table
from tests.helpers.examples import scored
from tests.helpers.exhibits import results

CLASSIFIER = 10
TRAINED = {"full": 10_000, "lora-I": 900, "bitfit": 400, "layernorm": 100, "frozen": 0}


def runs(scores, task="rte", fraction=1.0, scope=None):
    """Return runs of seeds 0, 1, … by method, with each method's number of parameters."""
    rows = [
        (task, method, fraction, scope, 1e-3, seed, value)
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]
    table = scored(*rows)
    trained = table["method"].map(lambda method: TRAINED.get(method, 50)) * table["fraction"]
    return table.assign(
        trainable=trained.astype(int) + CLASSIFIER,
        classifier=CLASSIFIER,
        delta_bytes=4 * trained,
        seconds=2.0,
        run=table.index.astype(str),
        best_epoch=1,
        one_answer=False,
        judges=True,
    )


def answer_of(table, task="rte", row_scores=NO_ROWS):
    titles = {name: name for name in table["task"]}
    rows = answers_table(results(titles, chosen=table, row_scores=row_scores)).table
    return rows[rows["task"] == task].iloc[0]


@pytest.mark.parametrize(
    ("scores", "decision", "method", "words"),
    [
        (
            {"full": [0.9] * 3, "bitfit": [0.89] * 3, "lora-I": [0.9] * 3, "layernorm": [0.8] * 3},
            "train",
            "BitFit",
            "Train BitFit (400 parameters, 4 % of all): it scores 0.8900, full 0.9000; with 95 % "
            "chance it loses at most 0.0100.",
        ),
        (
            {"full": [0.9] * 3, "bitfit": [0.7, 0.71, 0.69], "layernorm": [0.6] * 3},
            "everything",
            "BitFit",
            "Train everything: the nearest method, BitFit (400 parameters, 4 % of all), loses "
            "0.2000, at most 0.2169.",
        ),
        (
            {"full": [0.9] * 3, "layernorm": [0.93, 0.87, 0.9], "bitfit": [0.9, 0.901, 0.899]},
            *("train", "BitFit", "Train BitFit"),
        ),
        (
            {"full": [0.9] * 3, "layernorm": [0.93, 0.87, 0.9]},
            "probably",
            "LayerNorm",
            "Probably LayerNorm (100 parameters, 1 % of all): it scores 0.9000, full 0.9000; it is "
            "within 0.02 of full with 82 % chance. Full fine-tuning is the safe choice; about",
        ),
        (
            {"full": [0.9] * 3, "layernorm": [0.9, math.nan, 0.9], "bitfit": [0.9] * 3},
            *("train", "BitFit", "Train BitFit"),
        ),
        (
            {"full": [0.5] * 3, "lora-I": [0.81] * 3, "bitfit": [0.8] * 3, "layernorm": [0.6] * 3},
            "train",
            "BitFit",
            "Train BitFit (400 parameters, 4 % of all): it scores 0.8000, LoRA-I 0.8100; with 95 % "
            "chance it loses at most 0.0100. LoRA-I is the reference: with 95 % chance it beats "
            "full by more than 0.02. Full scores 0.310 less than LoRA-I: full may need more epochs",
        ),
        (
            {"full": [0.5] * 3, "lora-I": [0.81] * 3, "bitfit": [0.7] * 3},
            "train",
            "LoRA-I",
            "Train LoRA-I (900 parameters, 9 % of all): it scores 0.8100, full 0.5000; with 95 % "
            "chance it gains at least 0.3100. No smaller method has a chance of 50 % to be within",
        ),
        ({"full": [0.9] * 3, "embeddings": [0.9] * 3}, "train", "Embeddings", "Train nothing (a"),
        ({"full": [0.9] * 3, "frozen": [0.9] * 3}, "train", "Frozen", "Frozen (the classifier"),
    ],
    ids=[
        "smallest",
        "none is near",
        "sure",
        "likely",
        "diverged",
        *("beaten", "best"),
        "nothing",
        "classifier",
    ],
)
def test_the_answer_is_the_smallest_method_within_the_margin(scores, decision, method, words):
    row = answer_of(runs(scores))
    assert (row["decision"], row["method"]) == (decision, method)
    assert words in row["answer"]
    seeds = [*range(3 + row["more_seeds"])] if decision == "probably" else ""
    assert (f"about `seeds: {seeds}` would tell." in row["answer"]) is (decision == "probably")


@pytest.mark.parametrize(
    ("margin", "decision", "chance"),
    [(0.005, "everything", 0.0371), (0.02, "probably", 0.8873), (0.1, "train", 0.9994)],
)
def test_the_smallest_margin_of_the_experiments_decides(margin, decision, chance):
    """Student's t is -2√3, √3 or 17√3, with the chance 1/2 + t / (2 √(2 + t²))."""
    table = runs({"full": [0.9] * 3, "bitfit": [0.88, 0.885, 0.89]})
    table["margin"] = table["method"].map({"full": margin, "bitfit": 0.1})
    row = answer_of(table)
    assert (row["margin"], row["decision"]) == (margin, decision)
    methods = candidates.summary(table).set_index("method")
    assert set(methods["margin"]) == {margin}
    assert methods.loc["bitfit", "chance"] == pytest.approx(chance, abs=5e-5)


FULL = [0.7, 0.71, 0.72]


def test_full_is_compared_with_a_larger_method_that_beats_it():
    table = runs({"full": FULL, "lora-I": [0.8, 0.81, 0.82]})
    table.loc[table["method"] == "lora-I", "trainable"] = 2 * TRAINED["full"]
    rows = candidates.summary(table).set_index("method")
    assert rows.loc["full", "difference"] == pytest.approx(-0.1) and not rows.loc["full", "sure"]
    assert answer_of(table)["method"] == "LoRA-I" and rows.loc["lora-I", "sure"]


def test_a_method_without_a_score_of_full_to_compare_is_at_most_probable():
    row = answer_of(runs({"bitfit": [0.9] * 3, "lora-I": [0.91] * 3}))
    assert (row["decision"], row["method"], row["reference"]) == ("probably", "BitFit", "LoRA-I")
    row = answer_of(runs({"bitfit": [0.8] * 3, "lora-I": [0.91] * 3}))
    assert row["answer"].startswith("Probably LoRA-I (900 parameters): it scores 0.9100. Methods")


def test_an_answer_trains_less_than_the_reference_and_has_all_scores():
    scores = {"full": [0.9] * 2, "lora-I": [0.9] * 2, "layernorm": [0.9, math.nan]}
    table = runs(scores | {"bitfit": [0.8, 0.9]})
    table.loc[table["method"] == "lora-I", "trainable"] = TRAINED["full"] + CLASSIFIER
    assert answer_of(table)["method"] == "BitFit"


def test_a_mask_is_an_answer_too():
    whole = runs({"full": [0.9] * 3, "layernorm": [0.9] * 3})
    masked = runs({"layernorm": [0.9] * 3}, fraction=0.2, scope="global")
    row = answer_of(pd.concat([whole, masked], ignore_index=True))
    assert (row["method"], row["trained"]) == ("LayerNorm, top 20%, global", 20)


def test_one_seed_says_something_by_its_rows_and_nothing_without_them():
    table = runs({"full": [0.9], "bitfit": [0.9]})
    row = answer_of(table, row_scores=numbers_of(table, 0.01))
    assert (row["decision"], row["over"]) == ("probably", "one seed and 400 dev rows")
    assert row["chance"] > 0.99
    assert "chance (one seed: differences between seeds are not included). Full" in row["answer"]
    row = answer_of(table)
    assert (row["decision"], row["over"]) == ("probably", "") and math.isnan(row["chance"])
    assert row["answer"].endswith("is the safe choice; `seeds: [0, 1, 2]` would tell more.")


def numbers_of(table, noise, rows=400):
    """Return each run's values on fifty parts of the rows: its score, and noise per part."""
    generator = np.random.default_rng(0)
    part_effects = generator.normal(0, noise, len(PART_COLUMNS))
    values = [
        row.value
        + generator.normal(0, 0.01, len(PART_COLUMNS))
        + (row.method != "full") * part_effects
        for row in table.itertuples()
    ]
    return pd.DataFrame(values, columns=PART_COLUMNS).assign(run=table["run"], rows=rows)


def test_rows_widen_the_interval_and_more_of_them_would_tell():
    table = runs({"full": [0.9, 0.901, 0.902], "bitfit": [0.897, 0.9, 0.9]})
    alone = answer_of(table)
    quiet, loud = (answer_of(table, row_scores=numbers_of(table, noise)) for noise in (0.001, 0.2))
    assert (alone["over"], quiet["over"]) == ("3 seeds", "3 seeds and 400 dev rows")
    assert (quiet["decision"], loud["decision"]) == ("train", "probably")
    assert loud["low"] < quiet["low"] <= alone["low"] + 0.01
    assert loud["chance"] < quiet["chance"]
    assert f"about {loud['more_rows']:,} more dev rows" in loud["answer"]


@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_are_nested_in_folds_and_count_once_in_every_partition(partitions):
    scores = {"full": [0.9, 0.91, 0.88, 0.9, 0.89], "bitfit": [0.89, 0.92, 0.86, 0.9, 0.88]}
    table = runs({method: values * partitions for method, values in scores.items()})
    table["fold"] = table["seed"] % 5
    numbers = numbers_of(table, 0.1, rows=80)
    row = answer_of(table, row_scores=numbers)
    assert row["over"] == f"{5 * partitions} folds and 400 rows"
    values = numbers[PART_COLUMNS].to_numpy()
    full, bitfit = np.split(values, 2)
    differences = [b - f for f, b in zip(*scores.values(), strict=True)] * partitions
    study = intervals.estimate_nested_study(differences, bitfit - full, 400, 5)
    assert row["chance"] == pytest.approx(intervals.chance_within([study], 0.02))


def test_methods_are_compared_on_the_folds_that_both_have():
    scores = {"full": [0.9, 0.91, 0.8], "bitfit": [0.89, 0.92, 0.81, 0.1], "layernorm": [0.89]}
    table = runs(scores | {"lora-I": [0.9]})
    table["fold"] = table["seed"].where(table["method"] != "lora-I", 4)
    numbers = numbers_of(table, 0.1, rows=80)
    rows = candidates.summary(table, numbers).set_index("method")
    values = numbers[PART_COLUMNS].to_numpy()[:6]
    differences = [-0.01, 0.01, 0.01]
    study = intervals.estimate_nested_study(differences, values[3:] - values[:3], 240, 3)
    names = ["difference", "low", "high"]
    assert rows.loc["bitfit", names].tolist() == pytest.approx(intervals.mean_interval([study]))
    assert rows.loc["layernorm", "chance"] > 0 and not rows.loc["layernorm", "sure"]
    assert rows.loc["lora-I", [*names, "chance"]].isna().all()
    row = answer_of(table.drop(index=[3, 4, 5, 6]), row_scores=numbers)
    assert row["over"] == "one fold and 80 rows"
    assert "(one fold: differences between folds are not included)" in row["answer"]


@pytest.mark.parametrize("folds", [1, 3])
def test_an_answer_says_what_is_not_finished_and_that_it_would_tell_more(folds):
    scores = {"full": [0.9, 0.91, 0.9], "bitfit": [0.9, 0.9, 0.91]}
    table = runs({method: values[:folds] for method, values in scores.items()})
    table["fold"] = table["seed"]
    made = results({"rte": "RTE"}, chosen=table, row_scores=numbers_of(table, 0.3, rows=80))
    made = replace(made, unfinished={"full": [folds, 5], "lora-I": [0, 5]})
    row = answers_table(made).table.iloc[0]
    assert row["answer"].endswith(
        "Full fine-tuning is the safe choice; the folds that are missing would tell more. Not "
        f"finished: Full {folds} of 5 folds, LoRA-I 0 of 5; each loss is over the folds that "
        "both methods have; the same command with more minutes goes on."
    )
    assert row[["more_seeds", "more_rows"]].isna().all()


def test_full_that_is_not_trained_yet_is_not_asked_for():
    table = runs({"bitfit": [0.9] * 3, "lora-I": [0.9] * 3})
    made = replace(results({"rte": "RTE"}, chosen=table), unfinished={"full": [0, 3]})
    assert "add `full`" not in answers_table(made).table["answer"].item()


def test_test_rows_judge_the_runs_of_all_folds_and_are_crossed_with_them():
    table = runs({"full": [0.9, 0.91], "bitfit": [0.89, 0.9]}).assign(decides=False)
    numbers = numbers_of(table, 0.1)
    plain, folds = (
        answer_of(t, row_scores=numbers) for t in (table, table.assign(fold=[0, 1] * 2))
    )
    assert folds["over"] == plain["over"] == "2 seeds and 400 test rows"
    assert folds["chance"] == plain["chance"]


def test_equal_rows_say_nothing_where_the_metric_is_no_share_of_them():
    table = runs({"full": [0.0] * 3, "bitfit": [0.0] * 3}).assign(metric="matthews_correlation")
    same = pd.DataFrame(0.0, table.index, PART_COLUMNS).assign(run=table["run"], rows=400)
    row = answer_of(table, row_scores=same)
    assert row["decision"] == "probably" and math.isnan(row["chance"])


def test_rows_that_chose_nothing_judge_where_there_are_some():
    dev = runs({"full": [0.9, 0.91, 0.92], "bitfit": [0.99, 0.98, 0.97]}).assign(judges=False)
    scores = {"full": [0.8, 0.801, 0.802], "bitfit": [0.799, 0.8, 0.801]}
    test = runs(scores).assign(judges=True, decides=False, column="rte_test")
    table = pd.concat([dev, test], ignore_index=True)
    both = results({"rte": "RTE"}, chosen=table, row_scores=numbers_of(test, 0.2))
    made = answers_table(both)
    row = made.table.iloc[0]
    assert (row["score"], row["reference_score"]) == pytest.approx((0.8, 0.801))
    assert row["over"] == "3 seeds and 400 test rows"
    assert f"about {row['more_rows']:,} more test rows" in row["answer"]
    assert "these scores are from test rows" in made.note


def test_a_title_is_no_link_in_the_sentences():
    chosen = runs({"full": [0.9], "bitfit": [0.9]})
    made = answers_table(results({"rte": "[mine](https://a.b)"}, chosen=chosen))
    assert "\\[mine](https://a.b): Probably" in made.before


@pytest.mark.parametrize(("rows", "decision"), [(40, "probably"), (400, "train")])
def test_few_rows_without_a_difference_are_not_sure(rows, decision):
    table = runs({"full": [0.9] * 3, "bitfit": [0.9] * 3})
    same = pd.DataFrame(0.9, table.index, PART_COLUMNS).assign(run=table["run"], rows=rows)
    row = answer_of(table, row_scores=same)
    assert (row["decision"], row["high"]) == (decision, pytest.approx(3 / rows))
    assert row["chance"] == pytest.approx(1 - math.exp(-rows * 0.02))
    assert row["most_lost"] == pytest.approx(-math.log(0.05) / rows)


def test_full_that_has_learnt_nothing_is_no_reference():
    table = runs({"full": [0.7] * 3, "bitfit": [0.7] * 3})
    learnt_nothing = "3 runs of full predict the same for every row: full may have learnt nothing."
    assert learnt_nothing in answer_of(table.assign(one_answer=True))["answer"]
    assert learnt_nothing not in answer_of(table)["answer"]


@pytest.mark.parametrize(("method", "title"), [("full", "Full"), ("layernorm", "LayerNorm")])
def test_an_answer_says_which_of_its_two_methods_was_not_tuned_or_not_done(method, title):
    table = runs({"full": [0.9] * 3, "layernorm": [0.9] * 3, "bitfit": [0.9] * 3})
    is_method = table["method"] == method
    doubtful = table.assign(at_edge=is_method, curve=is_method.map({True: "still rising"}))
    said = answer_of(doubtful)["answer"]
    assert f"{title}'s learning rate is at the edge of those tried." in said
    assert f"{title} was still rising in its last epoch: give it more epochs." in said
    assert said.count("edge") == said.count("rising") == 1
    other = table.assign(at_edge=table["method"] == "bitfit", curve="fell")
    assert answer_of(other)["answer"] == answer_of(table)["answer"]


def test_methods_on_all_tasks_are_compared_by_their_mean_over_tasks():
    parts = [
        runs({"full": [0.9] * 3, "bitfit": [value] * 3}, task=task).assign(at_edge=task == "rte")
        for task, value in (("rte", 0.85), ("cola", 0.92), ("mrpc", 0.91))
    ]
    table = pd.concat([*parts, runs({"layernorm": [0.9] * 3}, task="cola")], ignore_index=True)
    assert answer_of(table)["answer"].startswith("Train everything: the nearest method, BitFit")
    row = answer_of(table, ALL_TASKS)
    assert (row["method"], row["over"]) == ("BitFit", "3 seeds")
    assert row["difference"] == pytest.approx(np.mean([-0.05, 0.02, 0.01]))
    assert "BitFit's learning rate is at the edge of those tried on some tasks." in row["answer"]


@pytest.mark.parametrize(
    ("scores", "part"),
    [
        ({"bitfit": [0.9]}, "Full fine-tuning is not among the methods: add `full`."),
        ({"full": [0.9, math.nan], "bitfit": [0.9] * 2}, "Full has no score: if it diverged"),
        ({"full": [0.9]}, "No method that trains less than full has a score"),
        ({"full": [0.7] * 3, "bitfit": [0.71] * 3}, "Full scores 0.010 less than BitFit"),
    ],
)
def test_what_keeps_full_from_being_compared_with_is_said(scores, part):
    assert part in answer_of(runs(scores))["answer"]


@pytest.mark.parametrize(("share", "is_said"), [(0.4, True), (0.99, False), (math.nan, False)])
def test_an_answer_says_how_much_of_long_texts_was_read(share, is_said):
    table = runs({"bitfit": [0.9, 0.9], "full": [0.9, 0.9]}).assign(share_read=share)
    said = "Only 40% of the texts' tokens were read: a larger `max_length` reads more."
    assert (said in answer_of(table)["answer"]) is is_said
