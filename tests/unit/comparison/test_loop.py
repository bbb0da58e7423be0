"""What a comparison does about jobs that fail, and about workers that end."""

import signal
from types import SimpleNamespace

import pytest

from subtune.comparison import loop
from subtune.comparison.loop import Loop, TimeLimit
from subtune.comparison.next_runs import rank_missing_runs
from subtune.comparison.workers import EndedJob, describe_exit
from subtune.core.errors import SubtuneError
from subtune.core.process import process_age
from subtune.plan.cost import Cost
from subtune.steps.jobs import Job
from tests.helpers.comparisons import SEARCHED, progress, score_id

TOKENS = Job("tokens", "t", {}, {}, {"tokens": "t"}, {})


@pytest.fixture
def lines(monkeypatch) -> list[str]:
    """The lines that a call says."""
    found: list[str] = []
    monkeypatch.setattr(loop, "print_line", found.append)
    return found


def made(*models: str) -> Loop:
    """A call that knows its plan, and that all runs need the tokens."""
    found = progress(models=models)
    plan = SimpleNamespace(experiments={"mine": found.planned})
    context = SimpleNamespace(plan=plan, training_inputs=lambda runs: {"tokens": "t"})
    state = Loop(context, TimeLimit(0, 60))
    state.jobs_by_output = {"t": TOKENS}
    return state


@pytest.fixture
def state(lines):
    return made("a")


def job_of(state: Loop, *methods: str, model: str = "a") -> Job:
    """A job that trains the next runs of some methods."""
    every = [run for _, runs in rank_missing_runs(state.progress) for run in runs]
    runs = [run for run in every if run.method in methods and run.model_name == model]
    return Job("train", "+".join(methods), {"runs": [r.json_types for r in runs]}, {}, {}, {})


@pytest.mark.fault(
    "models",
    "a method or model fails in `compare`",
    "left out with a message; without full fine-tuning, the call ends",
)
def test_a_method_that_fails_is_left_out_with_one_line(state, lines):
    loop._handle_ended_job(state, EndedJob(job_of(state, "bitfit", "layernorm"), error="no rows"))
    assert lines == ["left out bitfit, layernorm: no rows"]
    assert state.progress.left_out == {("a", "bitfit"), ("a", "layernorm")}


def test_without_full_or_a_second_method_there_is_no_comparison(state):
    with pytest.raises(SubtuneError, match=r"^full: no rows$"):
        loop._handle_ended_job(state, EndedJob(job_of(state, "full"), error="no rows"))
    loop._handle_ended_job(state, EndedJob(job_of(state, "embeddings"), error="no embeddings"))
    with pytest.raises(SubtuneError, match=r"^bitfit, layernorm: no rows$"):
        loop._handle_ended_job(
            state, EndedJob(job_of(state, "bitfit", "layernorm"), error="no rows")
        )


def test_rows_that_fail_end_all_methods(state):
    with pytest.raises(SubtuneError, match=r"^no tokens$"):
        loop._handle_ended_job(state, EndedJob(TOKENS, error="no tokens"))


def test_a_model_that_fails_is_left_out_and_the_other_goes_on(lines):
    state = made("a", "b")
    loop._handle_ended_job(state, EndedJob(job_of(state, "full", model="b"), error="no weights"))
    assert lines == ["left out b: no weights"]
    assert {model for model, _ in state.progress.left_out} == {"b"}
    loop._handle_ended_job(state, EndedJob(job_of(state, "bitfit"), error="no rows"))
    assert lines[1:] == ["left out bitfit of a: no rows"]


def test_tf_idf_stays_without_the_model_for_which_it_is_planned(lines):
    state = made("a", "b")
    loop._handle_ended_job(state, EndedJob(job_of(state, "full"), error="no weights"))
    assert lines == ["left out a: no weights"]
    assert ("a", "tf-idf") not in state.progress.left_out
    assert ("a", "bitfit") in state.progress.left_out


@pytest.mark.fault(
    "interruptions",
    "the system kills a worker",
    "its job is repeated alone; if it fails again, its methods are left out",
)
def test_a_job_whose_worker_ended_is_done_once_more_by_itself(state, lines):
    killed = describe_exit(-signal.SIGKILL)
    end = EndedJob(job_of(state, "embeddings"), killed, has_crashed=True)
    loop._handle_ended_job(state, end)
    assert not state.progress.left_out
    loop._handle_ended_job(state, end)
    assert killed == "the worker process was killed, probably because it ran out of memory"
    assert lines == [
        f"embeddings: {killed}; the job will be repeated when no other job is running",
        f"left out embeddings: {killed}",
    ]


def test_a_run_whose_worker_ended_twice_is_left_out_in_any_company(state, lines):
    both = job_of(state, "bitfit", "layernorm")
    loop._handle_ended_job(state, EndedJob(both, "the process ended", has_crashed=True))
    again = EndedJob(job_of(state, "bitfit"), "the process ended", has_crashed=True)
    loop._handle_ended_job(state, again)
    assert state.progress.left_out == {("a", "bitfit")}


def test_a_job_that_was_stopped_is_not_left_out(state, lines):
    loop._handle_ended_job(state, EndedJob(job_of(state, "embeddings")))
    assert not state.progress.left_out and not lines


def test_a_second_interrupt_ends_the_call(monkeypatch, lines):
    def interrupt(*_):
        raise KeyboardInterrupt

    context = made("a").context
    monkeypatch.setattr(Loop, "read_scores", lambda state: None)
    monkeypatch.setattr(Loop, "next_jobs", lambda state: [TOKENS])
    monkeypatch.setattr(loop, "train_until_stopped", lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(loop.ResultsWriter, "finish", interrupt)
    workers = SimpleNamespace(stop=lambda seconds: None)
    with pytest.raises(KeyboardInterrupt):
        loop.train_within_time_limit(context, TimeLimit(0, 60), workers)
    assert [line.split(":")[0] for line in lines] == ["stopping"]


def test_an_answer_that_lacks_the_last_runs_says_so(monkeypatch, lines):
    def stop(state, *_):
        state.answer = "BitFit is enough."
        state.writer.answered = 1

    context = made("a").context
    monkeypatch.setattr(Loop, "read_scores", lambda state: state.progress.scores.update(a=1, b=1))
    monkeypatch.setattr(Loop, "next_jobs", lambda state: [TOKENS])
    monkeypatch.setattr(loop, "train_until_stopped", stop)
    monkeypatch.setattr(loop.Progress, "join_recorded_runs", lambda progress: [{"run": "a"}])
    monkeypatch.setattr(loop.ResultsWriter, "finish", lambda *_: False)
    monkeypatch.setattr(loop, "_describe_runs", lambda state, workers: [])
    workers = SimpleNamespace(stop=lambda seconds: None, number=2)
    loop.train_within_time_limit(context, TimeLimit(0, 60), workers)
    assert lines == [
        "the time is up: the answer below and report.html lack the last recorded runs; to "
        "update them, run the comparison again",
        "the newest answer: BitFit is enough.",
    ]


def describe_runs(state: Loop, scores: dict[str, float]) -> list[str]:
    """Describe what was trained if each run takes four minutes, and there are two workers.

    Two minutes are estimated.
    """
    state.progress.scores.update(scores)
    costs = {run.key: Cost(seconds=120) for run in state.progress.planned}
    state.context.estimates = SimpleNamespace(run_costs=costs)
    state.sum_recorded_seconds = lambda runs: 240.0 * len([*runs])
    return [*loop._describe_runs(state, 2)]


def test_a_call_says_what_was_trained_and_what_ten_minutes_would_add(state):
    last = score_id("layernorm", 1, 1e-3)
    first = {score_id(method, fold, 1e-3): 0.7 for method in SEARCHED for fold in (0, 1)}
    assert describe_runs(state, {run: first[run] for run in first if run != last}) == [
        "trained: 3 of 3 methods, at least 1 of 2 folds each; learning rates as recommended",
        "10 more minutes would train about 1 run with other folds and 3 runs with other learning "
        "rates",
    ]
    others = {score_id(method, 0, rate): 0.5 for method in SEARCHED for rate in (1e-4, 1e-2)}
    floors = {score_id("embeddings", fold): 0.5 for fold in (0, 1)}
    [line] = describe_runs(state, first | others | floors)
    assert line == (
        "trained: 3 of 3 methods, at least 2 of 2 folds each; learning rates searched for 3 methods"
    )


def test_the_progress_counts_runs_of_searches_and_those_that_train_with_a_better_rate(state, lines):
    state.context.plan.runs_on_most_rows = lambda experiment: state.progress.planned
    scores = {score_id(method, fold, 1e-3): 0.7 for method in SEARCHED for fold in (0, 1)}
    scores |= {score_id("full", 0, 1e-4): 0.8, score_id("full", 0, 1e-2): 0.6}
    state.progress.scores.update(scores)
    state.report_progress()
    assert lines[-1].endswith("6 of 8 runs, and 2 runs with other learning rates")
    # The better rate replaces the recommended one as soon as both have as many folds.
    state.progress.scores[score_id("full", 1, 1e-4)] = 0.8
    state.report_progress()
    assert lines[-1].endswith("6 of 8 runs, and 3 runs with other learning rates")


@pytest.mark.parametrize(
    ("scores", "minutes"), [({}, 8), ({score_id("full", 0, 1e-3): 0.7}, 15)], ids=["none", "one"]
)
def test_too_few_minutes_for_full_fine_tuning_are_named_with_those_that_suffice(
    state, scores, minutes
):
    """Without a recorded run, the minutes are those of the estimate."""
    line, *_ = describe_runs(state, scores)
    assert line == (
        "fine-tuning was not tried in earnest: full fine-tuning has fewer than 2 folds; those of "
        f"all methods take about {minutes} more minutes"
    )


def test_time_is_kept_for_results_as_long_as_the_last_took(state):
    assert state.seconds_of_training == 58.5
    state.writer.seconds = 5
    assert state.seconds_of_training == 52


def test_the_shortest_time_limit_is_half_a_minute_and_counts_from_the_start_of_the_process():
    assert TimeLimit.start_now(0.1).time_limit == 30
    age = process_age()
    clock = TimeLimit.start_now(1, is_process=True)
    assert clock.time_limit == 60 and age <= clock.elapsed_seconds < age + 5


def test_a_job_that_does_not_fit_into_memory_waits_with_one_line(state, lines, monkeypatch):
    monkeypatch.setattr(Loop, "next_jobs", lambda *_: [job_of(state, "full"), TOKENS])
    started = []
    workers = SimpleNamespace(
        number=3,
        running=[job_of(state, "bitfit")],
        find_lack_of_memory=lambda job: "memory: too little",
        start=lambda job, log: started.append(job),
    )
    loop._start_jobs(state, workers)
    loop._start_jobs(state, workers)
    assert not started and lines == ["memory: too little"]
