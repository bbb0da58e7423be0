"""Methods compared with a reference, and their summary, against numbers worked out by hand."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from subtune.analysis import candidates, run_scores
from subtune.analysis.chosen_runs import merge_experiments
from subtune.core.errors import SubtuneError
from subtune.exhibits.answer_tables import summary_table
from tests.helpers.exhibits import NO_ROW_SCORES, results
from tests.unit.analysis.test_answer import FULL, runs


def test_the_summary_has_methods_from_the_highest_score_with_their_costs():
    scores = {"bitfit": [0.6, 0.8], "full": [0.9, 0.9], "lora-I": [0.9, math.nan]}
    rows = candidates.summarise_methods(
        runs(scores | {"frozen": [0.5, 0.5]}), NO_ROW_SCORES
    ).set_index("method")
    assert list(rows.index) == ["full", "bitfit", "frozen", "lora-I"]
    assert math.isnan(rows.loc["lora-I", "score"]) and not rows.loc["lora-I", "on_front"]
    numbers = {"score": 0.7, "seeds": 2, "spread": math.sqrt(0.02), "trained": 400, "share": 0.04}
    numbers |= {"delta_bytes": 1600, "seconds": 2, "epoch": 1}
    assert rows.loc["bitfit", [*numbers]].to_dict() == pytest.approx(numbers)


def test_a_score_of_one_answer_for_every_row_says_of_how_many_seeds():
    table = runs({"full": [0.9, 0.8], "bitfit": [0.5, 0.5]})
    for seeds, words in (([0, 1], "one answer"), ([1], "one answer in 1 of 2")):
        table["one_answer"] = (table["method"] == "bitfit") & table["seed"].isin(seeds)
        shown = summary_table(results({"rte": "RTE"}, chosen=table)).shown.set_index("method")
        assert shown.loc["BitFit", "score"] == f"0.5000 ± 0.0000 ({words})"
        assert "answer" not in shown.loc["Full", "score"]


def test_a_difference_to_full_is_paired_by_seed_and_has_students_distribution():
    full, bitfit = np.array([0.9, 0.8, 0.7, 0.9]), np.array([0.88, 0.79, 0.66, 0.88])
    rows = candidates.summarise_methods(
        runs({"full": full, "bitfit": bitfit}), NO_ROW_SCORES
    ).set_index("method")
    expected = scipy.stats.ttest_rel(bitfit, full).confidence_interval(0.95)
    error, student = scipy.stats.sem(bitfit - full), scipy.stats.t(3)
    names = ["difference", "low", "high", "chance", "most_lost"]
    chance, lost = student.cdf((-0.0225 + 0.02) / error), 0.0225 + student.ppf(0.95) * error
    numbers = [-0.0225, expected.low, expected.high, chance, lost]
    assert rows.loc["bitfit", names].tolist() == pytest.approx(numbers)
    assert rows.loc["full", names].isna().all()


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.1, 0.2, 0.3, None])), min_size=1))
def test_on_the_front_is_what_nothing_beats_in_both_score_and_parameters(points):
    table = pd.DataFrame(points, columns=["trained", "score"]).astype({"score": float})
    table = table.assign(models="tiny", task="rte", metric="accuracy", encoder_size=1)
    fronts = candidates.is_on_pareto_front(table)

    def beats(other, one):
        as_good = other.score >= one.score and other.trained <= one.trained
        return as_good and (other.score > one.score or other.trained < one.trained)

    rows = [*table.itertuples()]
    for one in rows:
        expected = not math.isnan(one.score) and not any(beats(other, one) for other in rows)
        assert fronts[one.Index] == expected


@pytest.mark.parametrize(
    ("scores", "reference"),
    [
        ({"full": FULL, "bitfit": [0.75, 0.76, 0.77], "lora-I": [0.8, 0.81, 0.82]}, "LoRA-I"),
        ({"full": FULL, "bitfit": [0.71, 0.72, 0.73]}, "Full"),
        ({"full": FULL, "bitfit": [0.7, 0.9, 0.8]}, "Full"),
        ({"full": FULL[:1], "bitfit": [0.9, 0.9, 0.9]}, "Full"),
        ({"full": [0.7, math.nan], "bitfit": FULL, "lora-I": [0.9], "frozen": [0.6] * 3}, "BitFit"),
        ({"full": [math.nan]}, ""),
    ],
    ids=["the best of several", "too little", "unsure", "one seed", "no score", "no score at all"],
)
def test_the_reference_is_full_unless_a_method_surely_beats_it_by_more_than_the_margin(
    scores, reference
):
    assert set(candidates.summarise_methods(runs(scores), NO_ROW_SCORES)["reference"]) == {
        reference
    }


def test_runs_on_different_rows_are_no_pair_but_an_error():
    table = runs({"full": [0.9, 0.9], "bitfit": [0.9, 0.9]}).assign(fold=[0, 1, 0, 1])
    table["run"] = ["full-0", "full-1", "bitfit-0", "bitfit-1"]
    rows = pd.DataFrame(np.nan, range(4), run_scores.PART_COLUMNS)
    rows = rows.assign(run=table["run"], rows=50, rows_hash=["x", "y", "x", "y"])
    assert len(candidates.summarise_methods(table, rows)) == 2
    rows.loc[3, "rows_hash"] = "z"
    refused = "BitFit and Full: runs bitfit-1 and full-1 are scored on different rows"
    with pytest.raises(SubtuneError, match=refused):
        candidates.summarise_methods(table, rows)


def test_a_setting_of_several_experiments_counts_once_where_it_is_best():
    shared = runs({"full": [0.8, 0.9], "bitfit": [0.7, 0.6]})
    better = runs({"full": [0.85, 0.95], "layernorm": [0.7, 0.7]})
    for order in itertools.permutations([shared, shared.iloc[:2], shared.iloc[2:], better]):
        together = merge_experiments(order)
        assert sorted(together["value"]) == [0.6, 0.7, 0.7, 0.7, 0.85, 0.95]
