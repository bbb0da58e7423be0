"""What more labels would add."""

import numpy as np
import pandas as pd
import pytest

from subtune.analysis.failures import RATIO, compute_gain_weights, estimate_gains
from subtune.analysis.run_scores import PART_COLUMNS
from subtune.core.errors import SubtuneError
from tests.helpers.examples import scored

NUMBERS = (125, 250, 500, 1000)


def power_law(numbers, highest=0.9, error=0.3):
    """Scores of which each doubling adds `RATIO` times as much as the doubling before."""
    return [highest - error * RATIO ** np.log2(number / numbers[0]) for number in numbers]


def measured(numbers=NUMBERS, scores=None, seeds=5, noise=0.0, folds=True, method="embeddings"):
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


@pytest.mark.parametrize("numbers", [NUMBERS, (500, 1000), (100, 1000), (300, 500, 1000)])
def test_of_a_power_law_the_next_doubling_is_found(numbers):
    numbers = (*numbers, 2 * numbers[-1])
    scores = power_law(numbers)
    gain = compute_gain_weights(numbers[:-1]) @ scores[:-1]
    assert gain == pytest.approx(scores[-1] - scores[-2])


@pytest.mark.parametrize("folds", [True, False])
def test_the_interval_is_over_seeds_and_rows(folds):
    quiet, loud = (estimate_gains(*measured(noise=n, folds=folds)).iloc[-1] for n in (0.001, 0.01))
    expected = power_law((*NUMBERS, 2000))
    assert quiet["low"] < expected[-1] - expected[-2] < quiet["high"]
    assert quiet["high"] - quiet["low"] < (loud["high"] - loud["low"]) / 5


def test_a_row_has_the_mean_score_on_its_number_of_rows():
    found = estimate_gains(*measured())
    assert found["train_rows"].tolist() == [*NUMBERS]
    assert found["score"].to_numpy() == pytest.approx(power_law(NUMBERS))
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
