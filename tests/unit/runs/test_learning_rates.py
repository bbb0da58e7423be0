"""Searches for learning rates: the next rates, the best one, and what a search leaves."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.process import StoppedError
from subtune.runs import records
from subtune.runs.learning_rates import (
    best_rate,
    choose_next_rates,
    find_learning_rates,
    follow_search,
    join_recorded_runs,
)
from subtune.runs.spec import SearchSpec
from subtune.training.checkpoints import Checkpoints
from tests.helpers import examples
from tests.helpers.comparisons import progress, score_id
from tests.helpers.records import record
from tests.unit.training.results import FILES, assert_same_files

DIVERGED = math.nan


def searching(*rates, **recipe):
    return SearchSpec(run=examples.run_spec(learning_rate=rates[0], **recipe), rates=rates)


def followed(spec, score):
    """Return the rate that a search finds by a function of the rate, and the rates it trains."""
    scores, trained = {}, []
    while rates := choose_next_rates(spec, scores):
        trained.append(rates)
        scores |= {rate: score(rate) for rate in rates}
    return best_rate(spec, scores), trained


def best_at(peak):
    """A score function that is highest at one learning rate, and falls on both sides."""
    return lambda rate: 1 - abs(math.log10(rate / peak)) / 20


TENFOLD = [10.0**n for n in range(-6, 2)]


@pytest.mark.parametrize(
    ("rates", "peak", "trained"),
    [
        # The middle one of three rates has worse neighbours.
        ((1e-3, 1e-2, 1e-1), 1e-2, [[1e-3, 1e-2, 1e-1]]),
        ((1e-3, 1e-2, 1e-1), 1e-1, [[1e-3, 1e-2, 1e-1], [1.0]]),
        ((1e-3, 1e-2), 1e-3, [[1e-3, 1e-2], [1e-4]]),
        # From many rates, a search begins in the middle and climbs.
        (tuple(TENFOLD), 1e-2, [[1e-3, 1e-2, 1e-1]]),
        (tuple(TENFOLD), 1e-5, [[1e-3, 1e-2, 1e-1], [1e-4], [1e-5], [1e-6]]),
        # A search adds at most four rates.
        ((1e-3, 1e-2), 1e-9, [[1e-3, 1e-2], [1e-4], [1e-5], [1e-6], [1e-7]]),
    ],
)
def test_a_search_climbs_until_its_best_has_worse_neighbours(rates, peak, trained):
    found, rates_trained = followed(searching(*rates), best_at(peak))
    assert rates_trained == trained
    assert found == max(peak, min(min(r) for r in trained))


@given(st.lists(st.sampled_from([DIVERGED, 0.1, 0.5, 0.9]), min_size=16, max_size=16))
def test_a_search_ends_at_a_rate_with_worse_neighbours_on_both_sides(scores):
    by_rate: dict = {}
    pending = iter(scores)
    spec = searching(1e-4, 1e-3, 1e-2, 1e-1)
    found, trained = followed(spec, lambda rate: by_rate.setdefault(rate, next(pending)))
    rates = sorted(by_rate)
    assert len(rates) == sum(map(len, trained)) <= 4 + 4
    place = rates.index(found)
    beside = [by_rate[rate] for rate in rates[max(0, place - 1) : place + 2]]
    finite = [score for score in beside if not math.isnan(score)]
    assert not finite or by_rate[found] == max(finite)


@pytest.mark.parametrize("outward", [0.5, DIVERGED])
@pytest.mark.parametrize("good", [1e-3, 1e-1])
def test_a_rate_outward_must_be_better_than_the_best(good, outward):
    scores = {1e-3: 0.4, 1e-2: 0.3, 1e-1: 0.4} | {good: 0.5}
    found, [_, added] = followed(searching(*scores), lambda rate: scores.get(rate, outward))
    assert (found, len(added)) == (good, 1)


def test_ties_go_to_the_smaller_rate():
    found, trained = followed(searching(1e-3, 1e-2, 1e-1), lambda rate: 0.5)
    assert (found, trained) == (1e-3, [[1e-3, 1e-2, 1e-1], [1e-4]])


def test_a_rate_that_diverges_is_a_worse_neighbour():
    found, _ = followed(searching(1e-3, 1e-2), lambda r: best_at(1)(r) if r < 0.1 else DIVERGED)
    assert found == 1e-2


def test_a_search_that_diverges_at_every_rate_keeps_the_smallest():
    found, trained = followed(searching(1e-3, 1e-2, 1e-1), lambda rate: DIVERGED)
    assert (found, len(trained)) == (1e-7, 5)


def test_what_a_search_finds_does_not_depend_on_how_its_first_rates_are_split():
    spec, score = searching(*TENFOLD), best_at(1e-5)
    scores = {1e-2: score(1e-2)}
    assert choose_next_rates(spec, scores) == [1e-3, 1e-1]
    scores[1e-3] = score(1e-3)
    assert choose_next_rates(spec, scores) == [1e-1]


@pytest.mark.parametrize(
    ("rates", "best", "expected"),
    [
        ((1e-5, 3e-5), 1e-5, [3.3e-6]),
        ((1e-5, 1e-4, 3e-4), 3e-4, [9e-4]),
        ((2.0, 4.0), 4.0, [8.0]),
        ((1.0, 5.0), 5.0, []),
        ((1e-3, 1.02e-3), 1.02e-3, []),
    ],
)
def test_the_next_rate_has_the_ratio_of_the_last_two_in_two_digits(rates, best, expected):
    scores = dict.fromkeys(rates, 0.4) | {best: 0.5}
    assert choose_next_rates(searching(*rates), scores) == expected


def find(specs, store, model, checkpoints=None):
    """Run searches, and return their results by id."""
    return find_learning_rates(specs, store, lambda runs: record(store, runs, model, checkpoints))


def test_a_search_leaves_ordinary_runs_and_a_table_of_them(tmp_path, tiny_bert):
    spec = searching(1e-4, 1e-3, 1e-2)
    found = find([spec], tmp_path, tiny_bert)[spec.id]
    assert sorted(row["run"] for row in found["tried"]) == records.list_run_ids(tmp_path)
    for row in found["tried"]:
        assert records.read_spec(tmp_path, row["run"]) == spec.run.with_learning_rate(
            row["learning_rate"]
        )
        scores = records.read_outcome(tmp_path, row["run"])["scores"]["validation"]
        assert row["score"] == scores["accuracy"]
    scored = {row["learning_rate"]: row["score"] for row in found["tried"]}
    assert scored[found["learning_rate"]] == max(scored.values())
    # A search whose runs are recorded trains none.
    assert find_learning_rates([spec], tmp_path, None) == {spec.id: found}
    assert follow_search(spec, partial(records.read_score, tmp_path)) == (scored, [])


def test_searches_of_one_job_train_side_by_side(tmp_path, tiny_bert):
    specs, trained = [searching(1e-4, 1e-3), searching(1e-3, 1e-2, epochs=2)], []

    def train(runs):
        trained.append(len(runs))
        record(tmp_path, runs, tiny_bert)

    found = find_learning_rates(specs, tmp_path, train)
    assert trained[0] == 4
    assert found == {s.id: find_learning_rates([s], tmp_path, None)[s.id] for s in specs}


def test_a_rate_that_diverged_has_no_score(tmp_path, tiny_bert):
    spec = searching(1e37, 1e38, max_grad_norm=1e30)
    found = find([spec], tmp_path, tiny_bert)[spec.id]
    assert {row["score"] for row in found["tried"]} == {None}


def test_a_search_that_is_cut_anywhere_finds_the_same(tmp_path, tiny_bert):
    """The list is so short that the search goes beyond its end."""
    spec = searching(1e-3, 1e-2, epochs=5)
    whole = tmp_path / "whole"
    expected = find([spec], whole, tiny_bert)
    assert len(expected[spec.id]["tried"]) > 2
    store, found, stops = tmp_path / "cut", None, 0
    while not found:
        asked = iter([None] * 7 + ["a test"] * 1000)
        checkpoints = Checkpoints(tmp_path / "kept", 0, lambda asked=asked: next(asked))
        try:
            found = find([spec], store, tiny_bert, checkpoints)
        except StoppedError:
            stops += 1
    assert stops > 3
    assert found == expected
    for row in found[spec.id]["tried"]:
        assert_same_files(store, row["run"], whole, row["run"], FILES)


def test_a_recorded_run_that_does_not_depend_on_the_seed_counts_for_every_seed():
    [run, *_] = [one for one in progress().planned if one.method == "embeddings"]
    planned = [run.replace(seed=seed) for seed in range(3)]
    rows = join_recorded_runs(planned, {run.spec: 0.5}.get)
    assert [(row["seed"], row["run"], row["planned"]) for row in rows] == [
        (seed, run.spec.id, 3) for seed in range(3)
    ]


def test_a_run_of_a_search_has_the_rate_that_was_trained_and_the_outcome_so_far():
    middle = score_id("bitfit", 0, 1e-3)
    [row] = progress({middle: 0.5}).join_recorded_runs()
    assert (row["run"], row["learning_rate"], row["planned"]) == (middle, 1e-3, 2)
    assert [(rate["learning_rate"], rate["score"]) for rate in row["tried"]] == [(1e-3, 0.5)]


def test_the_recorded_runs_of_a_method_have_the_best_rate_of_those_with_most_folds():
    scores = {score_id("full", 0, 1e-3): 0.7, score_id("full", 0, 1e-2): 0.8}

    def rates() -> list[float]:
        return [row["learning_rate"] for row in progress(scores).join_recorded_runs()]

    assert rates() == [1e-2]
    # A better rate counts once it is recorded for as many folds as the other rate.
    scores[score_id("full", 1, 1e-3)] = 0.7
    assert rates() == [1e-3, 1e-3]
    scores[score_id("full", 1, 1e-2)] = math.nan
    assert rates() == [1e-3, 1e-3]
    scores[score_id("full", 1, 1e-2)] = 0.6
    assert rates() == [1e-2, 1e-2]


@pytest.mark.parametrize("rate", [1e-4, 1e-2])
def test_another_rate_than_the_middle_one_is_no_answer_before_it_is_recorded(rate):
    assert not progress({score_id("full", 1, rate): 0.9}).join_recorded_runs()
