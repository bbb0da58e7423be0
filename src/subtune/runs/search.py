"""Searches for learning rates.

Every learning rate first trains on trial: for a part of the steps, with the whole schedule
shortened to them. If trial scores differ by less than their noise, the loss decides. The best rate
and its neighbours then train for all steps. The best full run needs a worse neighbour on both
sides: if there is none on one side, the next rate on that side trains for all steps. Few steps
favour large rates, so a larger rate that is clearly worse on trial is a worse neighbour. One seed
searches, and all seeds train with the chosen rate, as ordinary runs with their own records. The
record of a run that searched is a copy of the run with the chosen rate, with a table of all trials.
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
from subtune.selections.specs import LEARNING_RATES_BELOW, OUTWARD, RunSpec
from subtune.training.sweeps import Job, Report


@dataclass(frozen=True)
class Trial:
    """The score and loss of a learning rate at the end of its trial; NaN if it diverged."""

    learning_rate: float
    score: float
    train_loss: float


def best_on_trial(trials: Sequence[Trial], tie: float) -> float:
    """Return the rate with the smallest training loss among those with scores within ``tie`` of the
    highest.

    If several losses are equal, return the smallest rate.
    """
    trials = sorted(trials, key=lambda trial: trial.learning_rate)
    highest = max((trial.score for trial in trials if not math.isnan(trial.score)), default=0.0)
    losses = [t.train_loss if t.score >= highest - tie else math.inf for t in trials]
    return trials[losses.index(min(losses))].learning_rate


def finalists(trials: Sequence[Trial], tie: float) -> tuple[float, ...]:
    """Return the rates that train for all steps first: the best on trial and its neighbours."""
    best = best_on_trial(trials, tie)
    return tuple(sorted([best, *_neighbours(trials, best, tie)]))


def outward(search: RunSpec, trials: Sequence[Trial], best: float) -> float | None:
    """Return the next learning rate if the best is at an end of the trials, or None.

    Its ratio to the best rate equals the best rate's ratio to its neighbour. It is rounded, so that
    the run's id is the same on every machine.
    """
    rates = sorted(trial.learning_rate for trial in trials)
    smallest, largest = rates[0], rates[-1]
    if best not in (smallest, largest) or len(rates) == len(search.recipe.searched) + OUTWARD:
        return None
    neighbour = rates[1] if best == smallest else rates[-2]
    rate = float(f"{best * (best / neighbour):.2g}")
    is_new = rate < smallest or rate > largest
    return rate if is_new and 0 < rate < LEARNING_RATES_BELOW else None


def next_whole(
    search: RunSpec, trials: Sequence[Trial], whole: Sequence[float], best: float
) -> float | None:
    """Return the rate of the next full run, or None if the best has worse neighbours.

    Args:
        whole: the rates of full runs; ``best`` is the best of them.
    """
    beside = _neighbours(trials, best, search.training.tie)
    missing = [rate for rate in beside if rate not in whole]
    return missing[0] if missing else outward(search, trials, best)


def _neighbours(trials: Sequence[Trial], best: float, tie: float) -> list[float]:
    """Return the rates beside the best that only a full run can show to be worse.

    A larger rate is worse without one if its trial diverged, or scores lower by more than ``tie``.
    """
    trials = sorted(trials, key=lambda trial: trial.learning_rate)
    place = [trial.learning_rate for trial in trials].index(best)
    larger = [t for t in trials[place + 1 : place + 2] if t.score >= trials[place].score - tie]
    return [trial.learning_rate for trial in trials[max(0, place - 1) : place] + larger]


def chosen_rates(
    store: Path, searches: Mapping[str, RunSpec], whole: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return each search's best rate among its full runs; ties go to the first."""
    rates = {}
    for name, spec in searches.items():
        scores = _scores(store, spec, whole[name])
        rates[name] = max(scores, key=lambda r: -math.inf if math.isnan(scores[r]) else scores[r])
    return rates


def write_record(
    store: Path, search: RunSpec, trials: Sequence[Trial], whole: Sequence[float], best: float
) -> None:
    """Write the record of a search from the record of its run with the chosen rate.

    ``whole`` are the learning rates of full runs.

    Raises:
        SubtuneError: the run's record is damaged, or the store cannot be written.
    """
    scores = _scores(store, search, whole)
    runs = {rate: search.candidate(rate).id for rate in whole}
    origin = search.at(best).id
    # The copy gets new checksums, which would hide damage.
    if problems := records.problems_of(store, origin):
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
    """Copy a file; a delta is linked instead, because it is large and never changes."""
    if source.endswith(records.DELTA):
        with contextlib.suppress(OSError):
            return os.link(source, target)
    shutil.copy2(source, target)


def _scores(store: Path, search: RunSpec, whole: Sequence[float]) -> dict[float, float]:
    """Return, by learning rate, the recorded scores of full runs."""
    task = search.tokens.data.task
    split, metric = task.evaluation[0], task.metrics[0]
    return {
        rate: records.read_outcome(store, search.candidate(rate).id)["scores"][split][metric]
        for rate in whole
    }


def each_once(named: Mapping[str, RunSpec]) -> dict[str, RunSpec]:
    """Return each run under its first name only, because several searches may share a run."""
    names: dict[str, str] = {}
    for name, spec in named.items():
        names.setdefault(spec.id, name)
    return {name: named[name] for name in names.values()}


def at_rates(
    searches: Mapping[str, RunSpec], rates: Mapping[str, Sequence[float]]
) -> dict[str, RunSpec]:
    """Return the searches' runs with these learning rates, by their names in the log."""
    return {
        f"{name} at {rate:g}": searches[name].candidate(rate)
        for name, search_rates in rates.items()
        for rate in search_rates
    }


def on_trial(job: Job, searches: Mapping[str, RunSpec], report: Report) -> dict[str, list[Trial]]:
    """Train the trials of searches, until each search's best rate has a neighbour on both sides.

    ``searches`` are by name in the log; ``report`` is a function that gets lines about trials.
    """
    trials: dict[str, list[Trial]] = {name: [] for name in searches}
    rates: Mapping[str, Sequence[float]]
    rates = {name: spec.recipe.searched for name, spec in searches.items()}
    while rates:
        trials = with_trials(job, searches, trials, rates, report)
        best = {name: best_on_trial(trials[name], s.training.tie) for name, s in searches.items()}
        further = {n: outward(s, trials[n], best[n]) for n, s in searches.items()}
        rates = {name: (rate,) for name, rate in further.items() if rate is not None}
    return trials


def with_trials(
    job: Job,
    searches: Mapping[str, RunSpec],
    trials: Mapping[str, list[Trial]],
    rates: Mapping[str, Sequence[float]],
    report: Report,
) -> dict[str, list[Trial]]:
    """Train trials of more learning rates, and return all trials in ascending order of rates.

    Rates that already had their trial are left out. Trials are stored beside the checkpoints, so
    that the job's next attempt can read them.
    """
    tried = {name: {trial.learning_rate for trial in trials[name]} for name in rates}
    rates = {name: [rate for rate in rates[name] if rate not in tried[name]] for name in rates}
    score = f"{job.task.evaluation[0]}/{job.task.metrics[0]}"
    folder = job.checkpoints and job.checkpoints.folder / "trials"
    done: dict[str, Trial] = {}
    for share in sorted({searches[name].training.trial for name in rates}):
        alike = {name: rates[name] for name in rates if searches[name].training.trial == share}
        runs = each_once(at_rates(searches, alike))
        done |= {s.id: trial for s in runs.values() if folder and (trial := _kept(folder, s.id))}
        missing = {f"{name}, on trial": s for name, s in runs.items() if s.id not in done}
        for name, result in job.train(missing, lambda line, name=None: report(line), share):
            spec, last = missing[name], result.history[-1]
            ends = (math.nan, math.nan) if result.diverged else (last[score], last["train_loss"])
            done[spec.id] = Trial(spec.training.one_learning_rate, *ends)
            if folder:
                _keep(folder, spec.id, done[spec.id])
    every = dict(trials)
    for name in rates:
        new = [done[searches[name].candidate(rate).id] for rate in rates[name]]
        every[name] = sorted(trials[name] + new, key=lambda trial: trial.learning_rate)
    return every


def _keep(folder: Path, run: str, trial: Trial) -> None:
    """Store a trial. If it cannot be written, the next attempt trains it again."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{run}.json").write_text(json.dumps(asdict(trial)))


def _kept(folder: Path, run: str) -> Trial | None:
    """Return the trial that an earlier attempt stored, if its file is complete."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Trial(**json.loads((folder / f"{run}.json").read_text()))
    return None
