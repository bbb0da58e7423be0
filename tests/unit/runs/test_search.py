"""Searches for learning rates: trials, full runs, and the chosen rate."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.analysis import scores
from subtune.core.errors import SubtuneError
from subtune.core.jobs import StoppedError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.encoder import load_model
from subtune.runs import records, tables
from subtune.runs.search import Search, Trial
from subtune.tasks import TASKS
from subtune.training.checkpoints import Checkpoints
from subtune.training.evaluation import Evaluation, Result, without_scores
from subtune.training.recipe import train
from subtune.training.sweeps import Job
from tests.helpers import examples
from tests.helpers.records import record
from tests.unit.training.results import FILES, assert_close_files, assert_same_files, member

TASK = TASKS["sst2"].spec()
# The best rate on trial is the second to last.
GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
NO_LOGITS = np.zeros((6, 2))


@pytest.fixture
def searching():
    return examples.run_spec(learning_rate=GRID, epochs=10)


def score_of(store, run):
    return records.read_outcome(store, run)["scores"]["validation"]["accuracy"]


def table_of(store, search):
    return pd.read_csv(store / search.id / "search.csv", dtype={"run": str})


def result_of(score):
    """A result with a score, of a run that changed nothing; NaN means that it diverged."""
    evaluation = Evaluation({"validation": {"accuracy": score}}, {"validation": NO_LOGITS}, {}, {})
    if math.isnan(score):
        evaluation = without_scores(TASK)
    result = Result(trainable=1)
    result.end_epoch(1, 0.5, 0.0, evaluation)
    return result


@pytest.fixture
def search_among(tmp_path, tiny_bert, monkeypatch):
    """Make a search whose scores, in trials and full runs, are functions of the learning rate.

    Return the chosen rate, the rates of trials, and the rates of full runs.
    """

    def search(rates, on_trial, whole):
        def train_as_scored(job, runs, report, share=1.0):
            score = whole if share == 1 else on_trial
            for name, spec in runs.items():
                yield name, result_of(score(spec.recipe.one_learning_rate))

        monkeypatch.setattr(Job, "train", train_as_scored)
        spec = examples.run_spec(learning_rate=rates)
        record(tmp_path, [spec], tiny_bert)
        table = table_of(tmp_path, spec)
        found = records.read_outcome(tmp_path, spec.id)["learning_rate"]
        assert table.loc[table["found"], "learning_rate"].tolist() == [found]
        tried = table["learning_rate"].tolist()
        whole = table.loc[table["run"].notna(), "learning_rate"].tolist()
        assert whole == [r for r in tried if records.is_recorded(tmp_path, spec.at(r).id)]
        return found, tried, whole

    return search


def best_at(peak):
    """A score function that is highest at one learning rate, and falls on both sides."""
    return lambda rate: 1 - abs(math.log10(rate / peak)) / 20


trials = st.dictionaries(
    keys=st.floats(1e-6, 1.0),
    values=st.builds(
        Trial,
        score=st.sampled_from([math.nan, 0.0, 0.5, 0.7, 0.9]),
        train_loss=st.floats(0.0, 3.0),
    ),
    min_size=2,
    max_size=8,
)


@given(trials, st.sampled_from([0.0, 0.2, 1.0]))
def test_the_best_on_trial_and_its_neighbours_train_whole(tried, tie):
    rates = sorted(tried)
    scores = [trial.score for trial in tried.values() if not math.isnan(trial.score)]
    alike = [rate for rate in rates if scores and tried[rate].score >= max(scores) - tie]
    best = min(alike or rates[:1], key=lambda rate: (tried[rate].train_loss, rate))
    place = rates.index(best)
    whole = rates[max(0, place - 1) : place + 1]
    # A larger rate that is clearly worse after few steps is worse after many.
    larger = rates[place + 1 : place + 2]
    whole += [rate for rate in larger if tried[rate].score >= tried[best].score - tie]
    assert Search(examples.run_spec(tie=tie), tried).next_full_runs() == whole


def test_a_trial_is_a_whole_training_with_fewer_steps(tiny_bert):
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, TASK.outputs)
    rows = examples.examples_of(TASK, examples.tokens(TASK, tiny_bert))

    def history(epochs, share=1.0):
        [result] = train(model, rows, TASK, [member("bitfit", model, epochs=epochs)], share=share)
        return [{k: v for k, v in row.items() if k != "seconds"} for row in result.history]

    assert history(epochs=4, share=0.5) == history(epochs=2)
    # Twelve rows in batches of four are three steps per epoch, so five steps are less than two
    # epochs.
    part = history(epochs=4, share=5 / 12)
    assert [row["epoch"] for row in part] == [1, 2]
    assert part[1]["train_loss"] != history(epochs=2)[1]["train_loss"]


def test_a_search_finds_what_its_finalists_find_by_themselves(tmp_path, tiny_bert, searching):
    record(tmp_path / "search", [searching], tiny_bert)
    tried = pd.read_csv(tmp_path / "search" / searching.id / "search.csv")
    assert list(tried["learning_rate"]) == list(GRID)
    whole = tried.dropna(subset=["run"])
    assert len(whole) > 1 and tried["found"].sum() == 1
    alone = {rate: searching.at(rate) for rate in whole["learning_rate"]}
    record(tmp_path / "alone", [*alone.values()], tiny_bert)
    scores = {rate: score_of(tmp_path / "alone", spec.id) for rate, spec in alone.items()}
    assert list(whole["score"]) == list(scores.values())
    best = records.read_outcome(tmp_path / "search", searching.id)["learning_rate"]
    assert scores[best] == max(scores.values())
    assert_close_files(tmp_path / "search", searching.id, tmp_path / "alone", alone[best].id)
    assert records.read_spec(tmp_path / "search", searching.id) == searching


def test_a_search_and_the_run_that_it_found_are_one(tmp_path, tiny_bert, searching):
    record(tmp_path, [searching], tiny_bert)
    rate = records.read_outcome(tmp_path, searching.id)["learning_rate"]
    found = searching.at(rate).id
    weights = [(tmp_path / run / records.DELTA).stat().st_ino for run in (searching.id, found)]
    assert len(set(weights)) == 1
    listed = tables.recorded_runs(tmp_path, {})[0].set_index("run")
    assert listed.loc[searching.id, "learning_rate"] == rate and found not in listed.index


def test_one_seed_searches_for_all(tmp_path, tiny_bert, searching):
    first = searching.replaced(recipe=searching.recipe.replaced(search_seed=0))
    seeds = [first.replaced(seed=seed) for seed in (1, 0, 2)]
    lines = record(tmp_path / "search", seeds, tiny_bert)
    assert sum("on trial" in line and "epoch 1/" in line for line in lines) == len(GRID)
    store = tmp_path / "search"
    rates = {records.read_outcome(store, spec.id)["learning_rate"] for spec in seeds}
    assert len(rates) == 1
    # The full runs of the searching seed, and one run of each other seed.
    whole = table_of(store, seeds[0])["run"].notna().sum()
    assert len(records.all_runs(store)) == len(seeds) + whole + 2
    alone = [spec.at(*rates) for spec in seeds]
    record(tmp_path / "alone", alone, tiny_bert)
    for spec, one in zip(seeds, alone, strict=True):
        assert_close_files(store, spec.id, tmp_path / "alone", one.id)


def test_a_trial_takes_the_share_of_the_steps_that_is_asked(tmp_path, tiny_bert, searching):
    """Ten epochs of three steps each: a third of them end in the fourth epoch."""
    asked = searching.replaced(recipe=searching.recipe.replaced(trial=0.34))
    lines = record(tmp_path, [asked], tiny_bert)
    ends = [line for line in lines if "on trial" in line and "epoch 4/4" in line]
    assert len(ends) == len(GRID)
    assert asked.whole_runs == pytest.approx(len(GRID) * 0.34 + 3)


def test_finalists_that_are_on_record_are_not_trained_again(tmp_path, tiny_bert, searching):
    record(tmp_path, [searching.at(rate) for rate in GRID], tiny_bert)
    lines = record(tmp_path, [searching], tiny_bert)
    assert all("on trial" in line for line in lines if " loss " in line)
    assert records.is_recorded(tmp_path, searching.id)


def test_a_damaged_finalist_is_not_copied(tmp_path, tiny_bert, searching):
    record(tmp_path, [searching], tiny_bert)
    best = records.read_outcome(tmp_path, searching.id)["learning_rate"]
    shutil.rmtree(tmp_path / searching.id)
    delta = tmp_path / searching.at(best).id / records.DELTA
    delta.write_bytes(delta.read_bytes()[:-1] + b"x")
    with pytest.raises(SubtuneError, match="is not what was recorded"):
        record(tmp_path, [searching], tiny_bert)
    assert not records.is_recorded(tmp_path, searching.id)


def test_a_search_that_is_cut_anywhere_finds_the_same(tmp_path, tiny_bert, searching):
    """The list is so short that the search goes beyond its end."""
    short = searching.replaced(recipe=searching.recipe.replaced(learning_rate=GRID[1:3]))
    searches = [short, short.replaced(seed=1)]
    record(tmp_path / "expected", searches, tiny_bert)
    assert GRID[3] in table_of(tmp_path / "expected", short)["learning_rate"].tolist()
    store, stops = tmp_path / "cut", 0
    while not all(records.is_recorded(store, spec.id) for spec in searches):
        asked = iter([None] * 14 + ["a test"] * 1000)
        checkpoints = Checkpoints(tmp_path / "kept", 0, lambda asked=asked: next(asked))
        try:
            record(store, searches, tiny_bert, checkpoints)
        except StoppedError:
            stops += 1
    assert stops > 5
    for spec in searches:
        names = (*FILES, "search.csv", "scores.json")
        assert_same_files(store, spec.id, tmp_path / "expected", spec.id, names)


@pytest.mark.parametrize(
    ("rates", "best", "expected"),
    [
        ((1e-5, 3e-5), 1e-5, [3.3e-6]),
        ((1e-5, 1e-4, 3e-4), 3e-4, [9e-4]),
        ((1e-5, 1e-4, 3e-4), 1e-4, []),
        ((2.0, 4.0), 4.0, [8.0]),
        ((1.0, 5.0), 5.0, []),
        ((1e-3, 1.02e-3), 1.02e-3, []),
    ],
)
def test_the_next_rate_has_the_ratio_of_the_last_two_in_two_digits(rates, best, expected):
    tried = dict.fromkeys(rates, Trial(0.5, 0.5))
    search = Search(examples.run_spec(learning_rate=rates), tried, {best: 0.5})
    assert search.outward() == expected


@pytest.mark.parametrize(
    ("rates", "on_trial", "whole", "found", "tried"),
    [
        ((1e-3, 1e-2), best_at(1e-1), best_at(1e-1), 1e-1, [1e-3, 1e-2, 1e-1, 1]),
        ((1e-2, 1e-1), best_at(1e-3), best_at(1e-3), 1e-3, [1e-4, 1e-3, 1e-2, 1e-1]),
        # A search adds at most four rates.
        ((1e-3, 1e-2), best_at(1e-9), best_at(1e-9), 1e-7, [10.0**n for n in range(-7, -1)]),
        # The best full run is at an end.
        ((1e-3, 1e-2, 1e-1), best_at(1e-2), best_at(1e-5), 1e-5, [10.0**n for n in range(-6, 0)]),
        # Full runs with larger rates are better, though their trials are not.
        (
            *((1e-3, 1e-2, 1e-1), lambda rate: 0.5 if rate >= 1e-3 else 0.4),
            *(best_at(1e-1), 1e-1, [1e-4, 1e-3, 1e-2, 1e-1, 1]),
        ),
        # A rate that diverges on trial counts as a worse neighbour.
        (
            *((1e-3, 1e-2), lambda rate: best_at(1e-1)(rate) if rate < 0.1 else math.nan),
            *(best_at(1e-1), 1e-2, [1e-3, 1e-2, 1e-1]),
        ),
    ],
)
def test_a_search_goes_on_until_its_best_has_worse_neighbours(
    search_among, rates, on_trial, whole, found, tried
):
    best, every, ends = search_among(rates, on_trial, whole)
    assert (best, every) == (found, tried)
    beside = every[max(0, every.index(best) - 1) : every.index(best) + 2]
    # Larger rates that are worse on trial, or diverge there, do not train whole.
    needed = {rate for rate in beside if rate <= best or on_trial(rate) >= on_trial(best)}
    assert needed <= set(ends)


@pytest.mark.parametrize("outward_score", [0.5, math.nan])
def test_a_whole_run_outward_that_is_not_better_is_not_found(search_among, outward_score):
    found, tried, whole = search_among(
        (1e-3, 1e-2, 1e-1), best_at(1e-2), lambda rate: 0.5 if rate >= 1e-3 else outward_score
    )
    assert (found, tried) == (1e-3, [1e-4, 1e-3, 1e-2, 1e-1])
    assert whole == [1e-4, 1e-3, 1e-2]


def test_searches_with_trials_of_other_lengths_train_in_one_job(tmp_path, tiny_bert, searching):
    recipe = searching.recipe.replaced(learning_rate=GRID[1:4])
    searches = [
        searching.replaced(recipe=recipe.replaced(epochs=epochs, trial=trial))
        for epochs, trial in ((4, 0.25), (5, 0.5))
    ]
    record(tmp_path / "together", searches, tiny_bert)
    for spec in searches:
        record(tmp_path / "alone", [spec], tiny_bert)
        assert table_of(tmp_path / "together", spec).equals(table_of(tmp_path / "alone", spec))


def test_a_search_that_diverges_at_every_rate_is_recorded_as_diverged(tmp_path, tiny_bert):
    spec = examples.run_spec(learning_rate=(1e38, 2e38), max_grad_norm=1e30)
    record(tmp_path, [spec], tiny_bert)
    outcome = records.read_outcome(tmp_path, spec.id)
    assert outcome["diverged"] and outcome["learning_rate"] == 1e38


def test_every_seed_of_a_search_is_chosen_whatever_it_found():
    runs = [("rte", "a", 1.0, None, rate, seed, 0.9 - seed) for seed, rate in enumerate(GRID)]
    table = examples.scored(*runs)
    assert len(scores.choose(table.assign(searched=True))) == len(GRID)
    assert len(scores.choose(table)) == 1
