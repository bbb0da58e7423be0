"""Replay comparisons: the loop of `subtune.compare`, with recorded runs in place of training.

The clock advances by recorded seconds. A replay reads no file and trains nothing.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.decisions.recorded import RecordedTable
from subtune.analysis.answer import Answer
from subtune.comparison.loop import Loop, train_until_stopped
from subtune.comparison.next_runs import Progress
from subtune.comparison.recorded_results import LEAST_PROBABILITY, find_unlikely_methods
from subtune.comparison.workers import EndedJob
from subtune.runs.spec import PlannedRun
from subtune.steps.jobs import Job

# Measured with `compare` on two cores: the seconds before the first run starts, the seconds that
# a job takes in addition to training, and the seconds that are reserved for the results.
SECONDS_BEFORE, SECONDS_OF_A_JOB, SECONDS_OF_RESULTS = 14.0, 0.3, 8.0
WORKERS = 2


class Policy(NamedTuple):
    """A rule that chooses the settings and the order of runs.

    Attributes:
        settings: the name of the policy that chooses the settings, or `WHOLE` for all rows and
            methods.
        progress: the class of the progress, which joins runs with their records.
        rank: ranks the missing runs, as `subtune.comparison.next_runs.rank_missing_runs`.
        lag: a run stops after an epoch in which its score is lower, by more than this, than that of
            a run of the same method and examples with another learning rate.
        without: the methods that are left out.
        least: methods whose probability of being the answer is below this are trained last.
    """

    settings: str
    progress: type[Progress]
    rank: Callable[[Progress, Any], Sequence[tuple[Any, list[PlannedRun]]]]
    lag: float = math.inf
    without: Collection[str] = ()
    least: float = LEAST_PROBABILITY


class Moment(NamedTuple):
    """The answer after some seconds."""

    seconds: float
    answer: Answer


class Replay(NamedTuple):
    """A replayed comparison.

    Attributes:
        moments: the answers as they came.
        ended: the runs, each with the seconds after which it ended, and those that it took.
        known: the seconds until a run was needed that is not recorded. What follows is unknown.
        missing: the runs that were needed then.
    """

    moments: list[Moment]
    ended: list[tuple[float, PlannedRun, float]]
    known: float
    missing: list[PlannedRun]


@dataclass
class ReplayedTime:
    """The time limit of a replay, whose clock is advanced by `ReplayedWorkers`."""

    time_limit: float
    elapsed_seconds: float = SECONDS_BEFORE


@dataclass
class ReplayedWorkers:
    """Workers whose jobs take the recorded seconds of their runs.

    The runs of a job take as long as one after another, although they share some of their work.

    Attributes:
        ended: the scores of the runs that have ended, by id.
        started: the score and the seconds of each run that has started, by id.
        bought: the runs that have ended, as in `Replay.ended`.
        missing: the runs that are needed, but not recorded. The replay ends before them.
        known: the seconds until a missing run was needed.
    """

    table: RecordedTable
    clock: ReplayedTime
    lag: float
    number: int = WORKERS
    ends: list[tuple[float, Job]] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)
    started: dict[str, tuple[float, float]] = field(default_factory=dict)
    bought: list[tuple[float, PlannedRun, float]] = field(default_factory=list)
    missing: list[PlannedRun] = field(default_factory=list)
    known: float = math.inf

    @property
    def running(self) -> list[Job]:
        return [job for _, job in self.ends]

    def find_lack_of_memory(self, job: Job) -> None:
        return None

    def start(self, job: Job, log: Path) -> None:
        runs, recorded = job.spec["runs"], self.table.runs
        self.missing += [run for run in runs if run.spec.id not in recorded]
        seconds = math.inf
        if not self.missing:
            seconds = sum(self._train(run) for run in runs)
        self.ends.append((self.clock.elapsed_seconds + SECONDS_OF_A_JOB + seconds, job))

    def _train(self, run: PlannedRun) -> float:
        """Determine the score of a run, and return its seconds. Both depend on when it stops.

        If a stopped run has the best learning rate nevertheless, answers use all of its epochs.
        """
        about, curve = self.table.runs[run.spec.id].about, self.table.read_curve(run.spec.id)
        setting = self._describe_setting(run.spec.id)
        others = [
            self.table.read_curve(other)
            for other in self.ended
            if self._describe_setting(other) == setting
        ]
        best = [max(scores) for scores in zip(*others, strict=False)]
        pairs = enumerate(zip(curve, best, strict=False), 1)
        behind = (epoch for epoch, (score, most) in pairs if score < most - self.lag)
        epochs = next(behind, len(curve))
        score = about["score"] if epochs == len(curve) else max(curve[:epochs])
        seconds = about["seconds"] * epochs / len(curve)
        self.started[run.spec.id] = score, seconds
        return seconds

    def _describe_setting(self, run: str) -> tuple[Any, ...]:
        about, idx = self.table.runs[run].about, self.table.runs[run].idx
        return about["method"], about["seed"], about["train_rows"], idx.tobytes()

    def next_end(self, seconds: float) -> EndedJob | None:
        self.ends.sort(key=lambda pair: pair[0])
        if self.missing or self.ends[0][0] > seconds_of_training(self.clock.time_limit / 60):
            self.known = self.clock.elapsed_seconds if self.missing else math.inf
            self.clock.elapsed_seconds = self.clock.time_limit
            return None
        self.clock.elapsed_seconds, job = self.ends.pop(0)
        for run in job.spec["runs"]:
            self.ended[run.spec.id], seconds = self.started[run.spec.id]
            self.bought.append((self.clock.elapsed_seconds, run, seconds))
        return EndedJob(job)


class ReplayedLoop(Loop):
    """The loop of a replay.

    Attributes:
        moments: the answers as they came.
    """

    def __init__(
        self,
        table: RecordedTable,
        planned: Sequence[PlannedRun],
        policy: Policy,
        clock: Any,
        workers: ReplayedWorkers,
    ):
        layout = SimpleNamespace(log=lambda step, job: f"{step}-{job}")
        super().__init__(SimpleNamespace(layout=layout), clock)  # type: ignore[arg-type]
        self.progress = policy.progress(planned, {}, set())
        self.writer = SimpleNamespace(write_early=lambda recorded, now: None)  # type: ignore[assignment]
        self._table, self._policy, self._workers = table, policy, workers
        self.moments: list[Moment] = []

    @property
    def seconds_of_training(self) -> float:
        return seconds_of_training(self.clock.time_limit / 60)

    def read_scores(self) -> None:
        self.progress.scores.update(self._workers.ended)

    def next_jobs(self, running: Iterable[Job] = ()) -> Iterator[Job]:
        started = {run.spec.id for job in running for run in job.spec["runs"]}
        for _, runs in self._policy.rank(self.progress, self.unlikely):
            groups: dict[Any, list[PlannedRun]] = {}
            for run in runs:
                if run.spec.id not in started:
                    groups.setdefault(run.spec.sharing_key({}, on_gpu=False), []).append(run)
            for group in groups.values():
                yield Job("train", group[0].spec.id, {"runs": group}, {}, {}, {})

    def find_answer(self) -> None:
        joined = self.progress.join_recorded_runs()
        planned = {run.method for run in self.progress.planned}
        answer = self._table.find_answer(joined, planned)
        self.unlikely = find_unlikely_methods([answer], self._policy.least)
        # The loop reports a changed answer.
        self.answer = str(len(self.moments))
        self.moments.append(Moment(self.clock.elapsed_seconds, answer))

    def report_progress(self) -> None:
        """Print nothing. `moments` has the answers."""


def replay(
    table: RecordedTable, planned: Sequence[PlannedRun], policy: Policy, minutes: float
) -> Replay:
    """Replay one comparison."""
    clock = ReplayedTime(60 * minutes)
    workers = ReplayedWorkers(table, clock, policy.lag)
    state = ReplayedLoop(table, planned, policy, clock, workers)
    train_until_stopped(state, workers, lambda: None)  # type: ignore[arg-type]
    return Replay(state.moments, workers.bought, workers.known, workers.missing)


def seconds_of_training(minutes: float) -> float:
    """Return the seconds after which no run ends in time, because results are written."""
    return 60 * minutes - SECONDS_OF_RESULTS


def order_seeds(planned: Sequence[PlannedRun], order: Sequence[int]) -> list[PlannedRun]:
    """Train the seeds or folds of each setting in another order, which begins with the first one.

    Therefore searches, which use the first seed or fold, stay the same.
    """
    by_setting: dict[Any, list[PlannedRun]] = {}
    for run in planned:
        by_setting.setdefault(run.setting, []).append(run)
    return [
        runs[position] for runs in by_setting.values() for position in order if position < len(runs)
    ]
