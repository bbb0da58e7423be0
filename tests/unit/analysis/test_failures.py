"""Where methods fail, rows that disagree with their label, and what more labels would add."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from subtune.analysis import chosen_runs, judged_epochs, run_scores
from subtune.analysis.failures import (
    MOST_SUSPECTS,
    RATIO,
    MethodPredictions,
    compute_gain_weights,
    count_confusions,
    estimate_gains,
    find_suspects,
    read_method_predictions,
    score_by_class,
    wilson_interval,
)
from subtune.analysis.run_scores import PART_COLUMNS
from subtune.core.errors import SubtuneError
from subtune.tasks import Task
from tests.helpers.examples import scored
from tests.helpers.scored_runs import ROWS, collected, tables_of, write_run

COLOURS = Task(
    name="mine",
    title="mine",
    text=("text",),
    labels=("red", "green", "blue"),
    metrics=("accuracy",),
)
NUMBERS = Task(name="mine", title="mine", text=("text",), metrics=("pearsonr",))
TOPICS = COLOURS.replace(kind="multilabel", metrics=("f1_micro",))


def predicted(task, label, output, row=None):
    rows = np.arange(len(label)) if row is None else np.array(row)
    return MethodPredictions(
        task, "Full", True, "train", rows, np.array(label), np.array(output, float)
    )


def random_predictions(rows=200):
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, rows), rng.dirichlet(np.ones(3), rows)


def test_labels_have_the_scores_of_scikit_learn():
    label, output = random_predictions()
    found = score_by_class(predicted(COLOURS, label, output))
    scores = precision_recall_fscore_support(label, output.argmax(1))
    np.testing.assert_allclose(
        found[["precision", "recall", "f1", "support"]].to_numpy(float).T, scores
    )
    names = ("f1", "precision", "recall")
    assert all(
        (found[f"{n}_low"] < found[n]).all() and (found[n] < found[f"{n}_high"]).all()
        for n in names
    )


@pytest.mark.parametrize(("successes", "total"), [(0, 7), (3, 7), (7, 7), (40, 1000)])
def test_intervals_of_shares_are_those_of_scipy(successes, total):
    expected = binomtest(successes, total).proportion_ci(method="wilson")
    found = wilson_interval(np.array(successes), np.array(total))
    assert found == pytest.approx((successes / total, *expected))


def test_each_label_of_a_multi_label_task_has_its_scores():
    rng = np.random.default_rng(0)
    label, output = rng.integers(0, 2, (100, 3)), rng.random((100, 3))
    found = score_by_class(predicted(TOPICS, label, output))
    scores = precision_recall_fscore_support(label, output > 0.5)
    np.testing.assert_allclose(
        found[["precision", "recall", "f1", "support"]].to_numpy(float).T, scores
    )


def test_a_label_that_nothing_has_or_predicts_has_no_scores():
    found = score_by_class(predicted(COLOURS, [0, 1], np.eye(3)[:2])).set_index("label")
    assert found.loc["blue", ["precision", "recall", "f1"]].isna().all()


def test_confusions_are_counted_in_rows_even_if_several_seeds_predict_them():
    label, output = random_predictions()
    twice = predicted(COLOURS, [*label, *label], [*output, *output], [*range(200)] * 2)
    found = count_confusions(twice)["rows"].to_numpy().reshape(3, 3)
    assert found == pytest.approx(confusion_matrix(label, output.argmax(1)))
    assert (score_by_class(twice)["support"] == np.bincount(label)).all()


def test_the_least_probable_labels_are_the_first_suspects():
    # Rows 2 and 5 have labels whose probability is small where another is certain.
    output = np.array([[0.9, 0.1], [0.8, 0.2], [0.05, 0.95], [0.1, 0.9], [0.2, 0.8], [0.99, 0.01]])
    task = COLOURS.replace(labels=("red", "green"))
    found = find_suspects(predicted(task, [0, 0, 0, 1, 1, 1], output), {"text_a": list("abcdef")})
    assert found["row"].tolist() == [6, 3]
    assert found["text"].tolist() == ["f", "c"]
    assert found["label"].tolist() == ["green", "red"]
    assert found["prediction"].tolist() == ["red", "green"]
    assert found["probability"].to_numpy() == pytest.approx([0.01, 0.05])


def test_suspects_have_the_lines_of_the_users_file():
    output = np.array([[0.9, 0.1], [0.8, 0.2], [0.05, 0.95], [0.1, 0.9], [0.2, 0.8], [0.99, 0.01]])
    task = COLOURS.replace(labels=("red", "green"))
    places = [f"line {number}" for number in (2, 3, 7, 8, 12, 204)]
    columns = {"text_a": list("abcdef"), "place": places}
    found = find_suspects(predicted(task, [0, 0, 0, 1, 1, 1], output), columns)
    assert found[["row", "text"]].to_numpy().tolist() == [[204, "f"], [7, "c"]]


def test_probabilities_of_several_seeds_are_averaged():
    task = COLOURS.replace(labels=("red", "green"))
    output = [[0.1, 0.9], [0.3, 0.7], [0.3, 0.7], [0.8, 0.2], [0.8, 0.2]]
    found = find_suspects(predicted(task, [0, 0, 1, 0, 0], output, [0, 0, 1, 2, 3]), {})
    assert found[["row", "probability"]].to_numpy().tolist() == [[1, pytest.approx(0.2)]]


def test_flipped_labels_are_the_first_suspects():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 3000)
    output = 0.1 * rng.dirichlet(np.ones(3), 3000) + 0.9 * np.eye(3)[truth]
    label = np.where(np.arange(3000) < 90, (truth + 1) % 3, truth)
    found = find_suspects(predicted(COLOURS, label, output), {})
    assert set(found["row"]) <= set(range(1, 91))
    assert len(found) > 45


def test_the_labels_of_a_row_are_suspect_one_by_one():
    label = [[1, 0, 1], [0, 1, 0], [1, 0, 1], [0, 1, 0]]
    output = [[0.9, 0.1, 0.02], [0.1, 0.9, 0.1], [0.9, 0.95, 0.9], [0.1, 0.9, 0.1]]
    found = find_suspects(predicted(TOPICS, label, output), {"text_a": list("abcd")})
    about = found[["row", "label", "prediction", "text"]].to_numpy().tolist()
    assert about == [[1, "blue", "not blue", "a"], [3, "not green", "green", "c"]]


def test_numbers_have_their_largest_residuals_first():
    output = np.array([[1.0], [5.0], [2.5]])
    texts = {"text_a": list("abc"), "text_b": list("xyz")}
    found = find_suspects(predicted(NUMBERS, [1.5, 2.0, 4.5], output), texts)
    assert found["residual"].tolist() == [3.0, -2.0, -0.5]
    assert found[["text", "second text"]].to_numpy().tolist() == [
        ["b", "y"],
        ["c", "z"],
        ["a", "x"],
    ]


def test_a_table_of_suspects_ends():
    rows = MOST_SUSPECTS + 5
    assert len(find_suspects(predicted(NUMBERS, np.zeros(rows), np.ones((rows, 1))), {})) == 1000


@pytest.mark.parametrize(("task", "is_read"), [("mrpc", True), ("toxic", True), ("ud_ewt", False)])
def test_records_give_probabilities_of_texts(task, is_read, tmp_path):
    runs = {write_run(tmp_path, task, tables_of(task), seed=s): {"seed": s} for s in range(2)}
    chosen = chosen_runs.choose_rates(collected(tmp_path, task, runs)).assign(margin=0.02, curve="")
    rows = run_scores.tabulate_pseudo_values(chosen, tmp_path)
    found = read_method_predictions(chosen, rows, tmp_path)
    assert bool(found) == is_read
    for each in found:
        assert (each.title, each.is_named, each.split) == ("Full", True, "validation")
        assert len(each.row) == 2 * ROWS
        assert ((each.output > 0) & (each.output < 1)).all()
        assert task != "mrpc" or each.output.sum(1) == pytest.approx(1)
        _, table = judged_epochs.read_scored_predictions(tmp_path, chosen.iloc[0].to_dict())
        logits = table.filter(like="logit").to_numpy()
        assert (each.output[:ROWS].argmax(1) == logits.argmax(1)).all()


SIZES = (125, 250, 500, 1000)


def power_law(numbers, highest=0.9, error=0.3):
    """Scores of which each doubling adds `RATIO` times as much as the doubling before."""
    return [highest - error * RATIO ** np.log2(number / numbers[0]) for number in numbers]


def measured(numbers=SIZES, scores=None, seeds=5, noise=0.0, folds=True, method="embeddings"):
    """Runs of one method, and their row scores."""
    rng, rows, parts = np.random.default_rng(0), [], []
    for number, score in zip(numbers, scores or power_law(numbers), strict=True):
        for seed in range(seeds):
            value = score + noise * rng.normal()
            run = f"{method}{number}-{seed}"
            rows.append(("sst2", method, 1.0, None, 1e-3, seed, value, number, run))
            parts.append([run, 100, *(value + noise * rng.normal(size=len(PART_COLUMNS)))])
    table = scored(*(row[:7] for row in rows)).assign(judges=True)
    table = table.assign(train_rows=[row[7] for row in rows], run=[row[8] for row in rows])
    if folds:
        table["fold"] = table["seed"]
    scores = pd.DataFrame(parts, columns=["run", "rows", *PART_COLUMNS])
    return table, scores.assign(rows_hash="same")


@pytest.mark.parametrize("numbers", [SIZES, (500, 1000), (100, 1000), (300, 500, 1000)])
def test_of_a_power_law_the_next_doubling_is_found(numbers):
    numbers = (*numbers, 2 * numbers[-1])
    scores = power_law(numbers)
    gain = compute_gain_weights(numbers[:-1]) @ scores[:-1]
    assert gain == pytest.approx(scores[-1] - scores[-2])


@pytest.mark.parametrize("folds", [True, False])
def test_the_interval_is_over_seeds_and_rows(folds):
    quiet, loud = (estimate_gains(*measured(noise=n, folds=folds)).iloc[-1] for n in (0.001, 0.01))
    expected = power_law((*SIZES, 2000))
    assert quiet["low"] < expected[-1] - expected[-2] < quiet["high"]
    assert quiet["high"] - quiet["low"] < (loud["high"] - loud["low"]) / 5


def test_a_row_has_the_mean_score_on_its_number_of_rows():
    found = estimate_gains(*measured())
    assert found["train_rows"].tolist() == [*SIZES]
    assert found["score"].to_numpy() == pytest.approx(power_law(SIZES))
    assert found["gain"].isna().tolist() == [True, True, True, False]


def test_only_seeds_with_all_numbers_of_rows_count():
    table, rows = measured(noise=0.01)
    found = estimate_gains(table[table["run"] != "embeddings125-4"], rows)
    both = table[table["seed"] < 4].groupby("train_rows")["value"].mean()
    assert found["score"].to_numpy() == pytest.approx(both.to_numpy())


def test_a_method_with_one_number_of_rows_says_nothing():
    assert estimate_gains(*measured((1000,))).empty
    both = [
        pd.concat(tables)
        for tables in zip(measured(), measured((4000,), [0.9], method="full"), strict=True)
    ]
    assert estimate_gains(*both).empty


def test_sizes_that_are_scored_on_different_rows_are_refused():
    table, rows = measured(numbers=(500, 1000))
    same = rows.assign(rows_hash=[f"fold {number % 5}" for number in range(10)])
    assert len(estimate_gains(table, same))
    different = same.copy()
    different.loc[8, "rows_hash"] = "others"
    with pytest.raises(SubtuneError, match=r"500, 1000 .*embeddings500-3 and embeddings1000-3"):
        estimate_gains(table, different)
