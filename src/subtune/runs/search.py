"""Runs that search their learning rate.

Every learning rate first trains on trial, for a part of the steps, over which it rises and falls
as in a whole run. The best rate and the next smaller one, since few steps favour large rates, then
train whole. On trial the loss decides between scores that differ by less than their noise. One seed
does this, and all seeds train with the better of the two finalists. Each is an ordinary run with a
record of its own. The record of a run that searched is a copy of the run with the rate found, with
a table of all trials.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.runs.job import Job
from subtune.selections.specs import RunSpec
from subtune.tasks import TaskSpec
from subtune.training.run import Result
from subtune.training.sweeps import Report


@dataclass(frozen=True)
class Trial:
    """The score and loss of a learning rate at the end of its trial; NaN if it diverged."""

    learning_rate: float
    score: float
    train_loss: float


def trial_of(learning_rate: float, result: Result, task: TaskSpec) -> Trial:
    """Return the score and loss at the end of a trial."""
    if result.diverged:
        return Trial(learning_rate, math.nan, math.nan)
    last = result.history[-1]
    score = last[f"{task.evaluation[0]}/{task.metrics[0]}"]
    return Trial(learning_rate, score, last["train_loss"])


def finalists(trials: Sequence[Trial], tie: float) -> tuple[float, float]:
    """Return the two learning rates that train whole, the smaller first.

    They are the best on trial and the next smaller one, or the next larger one if the best is the
    smallest. The best has the smallest training loss of those whose scores are within ``tie`` of
    the highest; if several are equal, it is the smallest.
    """
    trials = sorted(trials, key=lambda trial: trial.learning_rate)
    highest = max((trial.score for trial in trials if not math.isnan(trial.score)), default=0.0)
    losses = [t.train_loss if t.score >= highest - tie else math.inf for t in trials]
    last = max(losses.index(min(losses)), 1)
    return trials[last - 1].learning_rate, trials[last].learning_rate


def found(store: Path, search: RunSpec, trials: Sequence[Trial]) -> float:
    """Return the learning rate of the better finalist, whose records are there."""
    scores = _scores(store, search, trials)
    # `max` returns the first of equals.
    return max(scores, key=lambda rate: -math.inf if math.isnan(scores[rate]) else scores[rate])


def write_record(store: Path, search: RunSpec, trials: Sequence[Trial], best: float) -> None:
    """Write the record of a search, from that of its run with the rate found.

    Raises:
        SubtuneError: that run's record is damaged, or the store cannot be written.
    """
    scores = _scores(store, search, trials)
    runs = {rate: search.candidates[rate].id for rate in scores}
    origin = search.at(best).id
    # The copy gets checksums of its own, which would hide damage.
    problems = records.problems_of(store, origin)
    if problems:
        raise SubtuneError("\n".join(problems))
    rows = [
        {"learning_rate": trial.learning_rate, "trial_score": trial.score}
        | {"trial_loss": trial.train_loss, "run": runs.get(trial.learning_rate)}
        | {"score": scores.get(trial.learning_rate), "found": trial.learning_rate == best}
        for trial in trials
    ]

    def fill(folder: Path) -> None:
        shutil.copytree(store / origin, folder, copy_function=_linked_delta, dirs_exist_ok=True)
        path = folder / "scores.json"
        outcome = json.loads(path.read_text()) | {"learning_rate": best}
        path.write_text(json.dumps(outcome, indent=2) + "\n")
        pd.DataFrame(rows).to_csv(folder / "search.csv", index=False)

    records.write(store, search, fill)


def _linked_delta(source: str, target: str) -> None:
    """Copy a file; a file of changed values, which is large and never written again, is linked."""
    if source.endswith(records.DELTA):
        with contextlib.suppress(OSError):
            return os.link(source, target)
    shutil.copy2(source, target)


def _scores(store: Path, search: RunSpec, trials: Sequence[Trial]) -> dict[float, float]:
    """Return the scores of the finalists, which are on record, by learning rate."""
    task = search.tokens.data.task
    split, metric = task.evaluation[0], task.metrics[0]
    return {
        rate: records.read_outcome(store, search.candidates[rate].id)["scores"][split][metric]
        for rate in finalists(trials, search.training.tie)
    }


def each_once(named: Mapping[str, RunSpec]) -> dict[str, RunSpec]:
    """Return runs without those that an earlier name has: several searches may share a run."""
    names: dict[str, str] = {}
    for name, spec in named.items():
        names.setdefault(spec.id, name)
    return {name: named[name] for name in names.values()}


def on_trial(job: Job, searches: Mapping[str, RunSpec], report: Report) -> dict[str, list[Trial]]:
    """Train the trials of searches, and return them in the order of learning rates.

    Trials are kept beside the checkpoints, so that the next attempt of the job reads them.

    Args:
        job: what the runs share.
        searches: the runs, by what the log calls them. Their trials take as many steps.
        report: is told of every trial.
    """
    if not searches:
        return {}
    [share] = {spec.training.trial for spec in searches.values()}
    folder = job.checkpoints and job.checkpoints.folder / "trials"
    candidates = each_once(
        {
            f"{name} at {rate:g}, on trial": candidate
            for name, spec in searches.items()
            for rate, candidate in spec.candidates.items()
        }
    )
    runs = [spec.id for spec in candidates.values()]
    trials = {run: trial for run in runs if folder and (trial := _kept(folder, run))}
    missing = {name: spec for name, spec in candidates.items() if spec.id not in trials}
    for name, result in job.train(missing, lambda line, name=None: report(line), share):
        spec = missing[name]
        trials[spec.id] = trial_of(spec.training.one_learning_rate, result, job.task)
        if folder:
            _keep(folder, spec.id, trials[spec.id])
    return {
        name: [trials[run.id] for _, run in sorted(spec.candidates.items())]
        for name, spec in searches.items()
    }


def _keep(folder: Path, run: str, trial: Trial) -> None:
    """Keep a trial; if it cannot be written, the next attempt trains it again."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{run}.json").write_text(json.dumps(asdict(trial)))


def _kept(folder: Path, run: str) -> Trial | None:
    """Return the trial that an earlier attempt kept, if its file is whole."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Trial(**json.loads((folder / f"{run}.json").read_text()))
    return None
