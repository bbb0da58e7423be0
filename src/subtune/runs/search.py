"""Searches for learning rates.

Every learning rate first trains on trial: for a part of the steps, with the whole schedule
shortened to these steps. If trial scores differ by less than their noise, the loss decides. The
best rate and its neighbours then train for all steps. The best full run needs a worse neighbour on
both sides: if there is none on one side, the next rate on that side trains for all steps. Few steps
favour large rates, so a larger rate that is clearly worse on trial is a worse neighbour. One seed
searches, and all seeds train with the chosen rate, as ordinary runs with their own records. The
record of a run that searched is a copy of the run with the chosen rate, with a table of all trials.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from subtune.runs import records
from subtune.selections.specs import LEARNING_RATES_BELOW, OUTWARD, RunSpec
from subtune.training.sweeps import Job, Report


class Trial(NamedTuple):
    """The score and loss of a learning rate at the end of its trial; NaN if it diverged."""

    score: float
    train_loss: float


@dataclass
class Search:
    """The trials of a search so far, and the scores of its full runs, by learning rate."""

    spec: RunSpec
    trials: dict[float, Trial] = field(default_factory=dict)
    scores: dict[float, float] = field(default_factory=dict)

    def best(self) -> float:
        """Return the rate of the best full run; ties go to the first.

        Before any full run, return the rate with the smallest loss among rates whose trial scores
        are within the tie of the highest. If several losses are equal, return the smallest rate.
        """
        scores, trials = self.scores, self.trials
        if scores:
            return max(scores, key=lambda r: -math.inf if math.isnan(scores[r]) else scores[r])
        highest = max((t.score for t in trials.values() if not math.isnan(t.score)), default=0.0)
        lowest = highest - self.spec.training.tie
        tied = [rate for rate in sorted(trials) if trials[rate].score >= lowest]
        return min(tied, key=lambda rate: trials[rate].train_loss, default=min(trials))

    def next_trials(self) -> list[float]:
        """Return the rates of the next trials; none if the best has neighbours on both sides."""
        return self.outward() if self.trials else [*self.spec.recipe.searched]

    def next_full_runs(self) -> list[float]:
        """Return the rates of the next full runs; none if the best has worse neighbours.

        The first full runs are the best on trial and its neighbours.
        """
        best = self.best()
        missing = [rate for rate in (best, *self._beside(best)) if rate not in self.scores]
        return sorted(missing) or self.outward()

    def _beside(self, best: float) -> list[float]:
        """Return the best rate's neighbours that only a full run can show to be worse.

        A larger rate needs no full run if its trial diverged, or scores lower by more than the
        tie.
        """
        rates = sorted(self.trials)
        place, lowest = rates.index(best), self.trials[best].score - self.spec.training.tie
        larger = [
            rate for rate in rates[place + 1 : place + 2] if self.trials[rate].score >= lowest
        ]
        return rates[max(0, place - 1) : place] + larger

    def outward(self) -> list[float]:
        """Return the next learning rate if the best is at an end of the trials, or none.

        Its ratio to the best rate equals the best rate's ratio to its neighbour. It is rounded, so
        that the run's id is the same on every machine.
        """
        best, rates = self.best(), sorted(self.trials)
        most = len(self.spec.recipe.searched) + OUTWARD
        if best not in (rates[0], rates[-1]) or len(rates) == most:
            return []
        neighbour = rates[1] if best == rates[0] else rates[-2]
        rate = float(f"{best * (best / neighbour):.2g}")
        is_new = rate < rates[0] or rate > rates[-1]
        return [rate] if is_new and 0 < rate < LEARNING_RATES_BELOW else []

    def read_scores(self, store: Path, rates: Sequence[float]) -> None:
        """Read the recorded scores of full runs."""
        task = self.spec.tokens.data.task
        for rate in rates:
            outcome = records.read_outcome(store, self.spec.candidate(rate).id)
            self.scores[rate] = outcome["scores"][task.evaluation[0]][task.metrics[0]]

    def write_record(self, store: Path) -> None:
        """Write the record of the search from the record of its run with the chosen rate.

        Raises:
            SubtuneError: the run's record is damaged, or the store cannot be written.
        """
        best = self.best()
        origin = self.spec.at(best).id
        # The copy gets new checksums, which would hide damage.
        records.require_undamaged(store, origin)
        rows = [
            {"learning_rate": rate, "trial_score": trial.score, "trial_loss": trial.train_loss}
            | {"run": self.spec.candidate(rate).id if rate in self.scores else None}
            | {"score": self.scores.get(rate), "found": rate == best}
            for rate, trial in sorted(self.trials.items())
        ]

        def fill(folder: Path) -> None:
            shutil.copytree(store / origin, folder, copy_function=_linked_delta, dirs_exist_ok=True)
            path = folder / "scores.json"
            outcome = json.loads(path.read_text()) | {"learning_rate": best}
            path.write_text(json.dumps(outcome, indent=2) + "\n")
            pd.DataFrame(rows).to_csv(folder / "search.csv", index=False)

        records.write(store, self.spec, fill)


def _linked_delta(source: str, target: str) -> None:
    """Copy a file; a delta is linked instead, because it is large and never changes."""
    if source.endswith(records.DELTA):
        with contextlib.suppress(OSError):
            return os.link(source, target)
    shutil.copy2(source, target)


def asked(
    searches: Mapping[str, Search], rates_of: Callable[[Search], list[float]]
) -> dict[str, list[float]]:
    """Return the learning rates that each search asks for, without searches that ask for none."""
    return {name: rates for name, search in searches.items() if (rates := rates_of(search))}


def at_rates(
    searches: Mapping[str, Search], rates: Mapping[str, Sequence[float]]
) -> dict[str, RunSpec]:
    """Return the searches' runs with these learning rates, by their names in the log."""
    return {
        f"{name} at {rate:g}": searches[name].spec.candidate(rate)
        for name, search_rates in rates.items()
        for rate in search_rates
    }


def train_trials(
    job: Job,
    searches: Mapping[str, Search],
    rates: Mapping[str, Sequence[float]],
    report: Report,
) -> None:
    """Train the trials of learning rates that had no trial.

    Trials are stored beside the checkpoints, so that the job's next attempt can read them.
    """
    score = f"{job.task.evaluation[0]}/{job.task.metrics[0]}"
    folder = job.checkpoints and job.checkpoints.folder / "trials"
    for share in sorted({searches[name].spec.training.trial for name in rates}):
        new = {
            name: [rate for rate in rates[name] if rate not in searches[name].trials]
            for name in rates
            if searches[name].spec.training.trial == share
        }
        runs = at_rates(searches, new)
        done = {s.id: trial for s in runs.values() if folder and (trial := _kept(folder, s.id))}
        missing = {f"{name}, on trial": s for name, s in runs.items() if s.id not in done}
        for name, result in job.train(missing, lambda line, name=None: report(line), share):
            run, last = missing[name].id, result.history[-1]
            ends = (math.nan, math.nan) if result.diverged else (last[score], last["train_loss"])
            done[run] = Trial(*ends)
            if folder:
                _keep(folder, run, done[run])
        for name, new_rates in new.items():
            found = {rate: done[searches[name].spec.candidate(rate).id] for rate in new_rates}
            searches[name].trials |= found


def _keep(folder: Path, run: str, trial: Trial) -> None:
    """Store a trial. If it cannot be written, the next attempt trains it again."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{run}.json").write_text(json.dumps(trial))


def _kept(folder: Path, run: str) -> Trial | None:
    """Return the trial that an earlier attempt stored, if its file is complete."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Trial(*json.loads((folder / f"{run}.json").read_text()))
    return None
