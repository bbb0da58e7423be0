"""The order of a comparison's jobs, from what is done and which scores are recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from subtune.comparison.schedule import next_jobs
from subtune.runs.spec import PlannedRun
from subtune.steps.jobs import Job
from tests.helpers.jobs import PLACES, comparison

TOKENS = ("tokens", "t")
# Scores of a search that has found the middle rate.
FOUND = {1e-4: 0.5, 1e-3: 0.7, 1e-2: 0.6}


@pytest.fixture(scope="module")
def schedule():
    return comparison()


@pytest.fixture
def in_words(schedule):
    """A function that names the next jobs: a search's by methods and learning rates."""

    def names(done=(), by_method=None, running=()) -> list[str]:
        scores = {
            id: (by_method or {}).get(method, {})
            for id, methods in schedule.searchers.items()
            for method in methods
        }
        return [named(job) for job in next_jobs(schedule, {*done}, scores, running)]

    def named(job: Job) -> str:
        if not job.id.startswith("search-"):
            return f"{job.step} {job.id}" if job.step != "train" else job.id
        runs = [PlannedRun.model_validate(run).spec for run in job.spec["runs"]]
        rates = sorted({run.recipe.learning_rate for run in runs})
        return f"{'+'.join(job.spec['methods'])} at {', '.join(f'{rate:g}' for rate in rates)}"

    return names


def searched(schedule) -> set:
    return {TOKENS, ("train", "embeddings"), *(("search", id) for id in schedule.searches)}


def test_what_all_runs_need_comes_first(in_words):
    assert in_words() == ["tokens t"]


def test_each_search_begins_with_its_middle_rate_and_full_before_others(in_words):
    assert in_words([TOKENS]) == [
        "embeddings",
        "full at 0.001",
        "bitfit+layernorm at 0.001",
        "full at 0.0001",
        "full at 0.01",
        "bitfit+layernorm at 0.0001, 0.01",
    ]


def test_on_a_gpu_learning_rates_of_full_train_side_by_side(schedule):
    jobs = next_jobs(replace(schedule, on_gpu=True), {TOKENS}, {})
    of_full = [job for job in jobs if job.spec.get("methods") == ["full"]]
    assert [len(job.spec["runs"]) for job in of_full] == [1, 2]


def test_a_run_that_was_started_is_not_started_again(schedule, in_words):
    running = next_jobs(schedule, {TOKENS}, {})[:2]
    assert in_words([TOKENS], running=running)[:2] == [
        "bitfit+layernorm at 0.001",
        "full at 0.0001",
    ]


def test_a_search_removes_the_checkpoints_of_its_runs(schedule):
    for job in next_jobs(schedule, {TOKENS}, {})[1:]:
        assert Path(job.resources["checkpoints"]).parent == Path(PLACES["checkpoints"])


def test_a_search_is_written_when_its_runs_are_recorded(schedule, in_words):
    scores = {"full": FOUND, "bitfit": {1e-3: 0.7}, "layernorm": {1e-3: 0.5, 1e-2: 0.6}}
    [full] = [id for id, methods in schedule.searchers.items() if methods == {"full"}]
    assert in_words([TOKENS, ("train", "embeddings")], scores) == [
        f"search {full}",
        "bitfit+layernorm at 0.0001, 0.01",
    ]


def test_then_folds_come_in_turn_and_the_tables_at_the_end(schedule, in_words):
    done = searched(schedule)
    folds = ["full 0", "bitfit+layernorm 0", "full 1", "bitfit+layernorm 1"]
    assert in_words(done) == folds
    assert in_words(done | {("train", name) for name in folds}) == ["scores mine"]


def test_a_method_that_is_given_up_leaves_its_jobs_to_the_others(schedule):
    done = searched(schedule)
    jobs = next_jobs(schedule, done, {}, given_up={"bitfit"})
    [first, shared, *_] = jobs
    assert first.outputs and not shared.outputs
    [left] = [PlannedRun.model_validate(run) for run in shared.spec["runs"]]
    assert left.method == "layernorm"
    assert shared.inputs["searches"] == [f"searches/{left.search}"]
    assert all(job.step != "scores" for job in jobs)


def test_a_search_of_a_method_that_is_given_up_is_not_waited_for(schedule):
    [bitfit] = [id for id, methods in schedule.searchers.items() if methods == {"bitfit"}]
    done = searched(schedule) - {("search", bitfit)}
    names = [job.id for job in next_jobs(schedule, done, {}, given_up={"bitfit"})]
    assert "bitfit+layernorm 0" in names


def test_a_job_is_of_the_methods_that_need_it(schedule):
    every = {"full", "bitfit", "layernorm", "embeddings"}
    assert schedule.methods_needing(schedule.jobs[TOKENS]) == every
    embeddings, full, *_ = next_jobs(schedule, {TOKENS}, {})
    assert schedule.methods_needing(embeddings) == {"embeddings"}
    assert schedule.methods_needing(full) == {"full"}
    searches = [job for job in schedule.jobs.values() if job.step == "search"]
    assert [*map(schedule.methods_needing, searches)] == [{"layernorm"}, {"bitfit"}, {"full"}]
