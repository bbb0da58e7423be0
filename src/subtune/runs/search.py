"""Runs that find their learning rate.

Every learning rate of a search first trains for a tenth of the steps, over which it rises and falls
as it does in a whole run. The best of them and the next smaller one, as few steps favour large
ones, then train whole, each as the run that it would be without a search, and with a record of its
own. The better of these two is what the search has found: its record is the search's too, with a
table of what was tried.
"""

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from subtune.core.directories import new_directory
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.runs.job import Job
from subtune.selections.specs import TRIAL, RunSpec
from subtune.tasks import TaskSpec
from subtune.training.reports import Report
from subtune.training.run import Result


@dataclass(frozen=True)
class Trial:
    """How a learning rate did on trial, by the score and loss of its last epoch: NaN where it
    diverged."""

    learning_rate: float
    score: float
    train_loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """Larger is better: the score, and of equal scores the smaller loss."""
        if math.isnan(self.score):
            return -math.inf, -math.inf
        return self.score, -self.train_loss


def trial_of(learning_rate: float, result: Result, task: TaskSpec) -> Trial:
    """What the end of a trial says of its learning rate."""
    if result.diverged:
        return Trial(learning_rate, math.nan, math.nan)
    last = result.history[-1]
    score = last[f"{task.evaluation[0]}/{task.metrics[0]}"]
    return Trial(learning_rate, score, last["train_loss"])


def finalists(trials: Sequence[Trial]) -> tuple[float, float]:
    """The two learning rates that train whole, the smaller first.

    They are the best on trial, of equals the smallest, and the next smaller one; where there is
    none, the next larger.
    """
    trials = sorted(trials, key=lambda trial: trial.learning_rate)
    # `max` returns the first of equals.
    best = max(range(len(trials)), key=lambda number: trials[number].rank)
    last = max(best, 1)
    return trials[last - 1].learning_rate, trials[last].learning_rate


def write_record(store: Path, search: RunSpec, trials: Sequence[Trial]) -> float:
    """Write the record of a search whose finalists are on record; returns what it found.

    Raises:
        SubtuneError: a finalist's record is not what was recorded, the disk is full, or the store
            cannot be written.
    """
    runs = {rate: search.at(rate).id for rate in finalists(trials)}
    scores = {rate: _score(store, search, run) for rate, run in runs.items()}
    ranks = {rate: -math.inf if math.isnan(score) else score for rate, score in scores.items()}
    best = max(runs, key=lambda rate: ranks[rate])
    # A copy has checksums of its own, which would hide what has happened to the record.
    problems = records.problems_of(store, runs[best])
    if problems:
        raise SubtuneError("\n".join(problems))
    rows = [
        {"learning_rate": trial.learning_rate, "trial_score": trial.score}
        | {"trial_loss": trial.train_loss, "run": runs.get(trial.learning_rate)}
        | {"score": scores.get(trial.learning_rate), "found": trial.learning_rate == best}
        for trial in trials
    ]
    try:
        with new_directory(store / search.id) as draft:
            shutil.copytree(store / runs[best], draft, dirs_exist_ok=True)
            path = draft / "scores.json"
            outcome = json.loads(path.read_text()) | {"learning_rate": best}
            path.write_text(json.dumps(outcome, indent=2) + "\n")
            pd.DataFrame(rows).to_csv(draft / "search.csv", index=False)
            records.complete(draft, search)
    except SubtuneError:
        # A node that was given up for lost may have finished the same search meanwhile.
        if not records.is_recorded(store, search.id):
            raise
    return best


def _score(store: Path, search: RunSpec, run: str) -> float:
    task = search.tokens.data.task
    return records.read_outcome(store, run)["scores"][task.evaluation[0]][task.metrics[0]]


def on_trial(
    job: Job, searches: Mapping[str, RunSpec], report: Callable[[Report], None]
) -> dict[str, list[Trial]]:
    """The trials of runs that find their learning rate, in the order of learning rates.

    They are kept beside the checkpoints, so that no other attempt of the job does them again.

    Args:
        job: what the runs share.
        searches: the runs, by what the log calls them.
        report: is told of every trial.
    """
    folder = job.checkpoints and job.checkpoints.folder / "trials"
    # By id, as several searches may try the same.
    candidates = {
        candidate.id: (f"{name} at {rate:g}, on trial", candidate)
        for name, spec in searches.items()
        for rate, candidate in ((rate, spec.at(rate)) for rate in spec.recipe.searched)
    }
    trials = {run: trial for run in candidates if folder and (trial := _kept(folder, run))}
    missing = dict(named for run, named in candidates.items() if run not in trials)
    for name, result in job.train(missing, lambda of: report(Report(of.text)), TRIAL):
        spec = missing[name]
        trials[spec.id] = trial_of(spec.recipe.one_learning_rate, result, job.task)
        if folder:
            _keep(folder, spec.id, trials[spec.id])
    return {
        name: [trials[spec.at(rate).id] for rate in sorted(spec.recipe.searched)]
        for name, spec in searches.items()
    }


def _keep(folder: Path, run: str, trial: Trial) -> None:
    """Where that cannot be done, another attempt trains again."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{run}.json").write_text(json.dumps(asdict(trial)))


def _kept(folder: Path, run: str) -> Trial | None:
    """The trial that an earlier attempt has kept whole."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Trial(**json.loads((folder / f"{run}.json").read_text()))
    return None
