"""The judgement of the runs that are recorded so far."""

import csv
import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from subtune.interface.schedule import TABLES, Schedule, Scores
from subtune.runs.records import is_recorded
from subtune.runs.search import best_rate, outcome
from subtune.steps.job import Job, Paths

# The folder in the results for the inputs of early tables.
SO_FAR = "so_far"


def recorded(schedule: Schedule, store: Path, scores: Scores) -> dict[str, str]:
    """Return the recorded run of each planned run that has one, by key.

    While a search is not finished, its runs are those at the best learning rate so far.
    """
    rates = {id: best_rate(schedule.searches[id], tried) for id, tried in scores.items() if tried}
    runs = {}
    for key, planned in schedule.planned.items():
        if planned.search is None or planned.search in rates:
            run = planned.with_found_rate(rates)
            if is_recorded(store, run.id):
                runs[key] = run.id
    return runs


def unfinished(
    schedule: Schedule, runs: Mapping[str, str], given_up: Collection[str]
) -> dict[str, list[int]]:
    """Return the numbers of done and of planned seeds or folds, for each unfinished method."""
    planned = Counter(fact["method"] for fact in schedule.facts)
    done = Counter(fact["method"] for fact in schedule.facts if fact["key"] in runs)
    return {
        method: [done[method], number]
        for method, number in planned.items()
        if done[method] < number and method not in given_up
    }


def judging_jobs(
    schedule: Schedule,
    results: Path,
    runs: Mapping[str, str],
    scores: Scores,
    given_up: Collection[str],
) -> list[Job]:
    """Return the jobs that make tables, as if only the recorded runs were planned.

    They read files that this function writes, in place of the files of sweeps and searches.
    """
    folder = results / SO_FAR
    sweeps, searches = [str(_write_runs(folder, runs))], _write_searches(folder, schedule, scores)
    missing = unfinished(schedule, runs, given_up)
    jobs = []
    for job in schedule.jobs.values():
        if job.step in TABLES:
            so_far: Paths = {"sweeps": sweeps, "searches": searches}
            inputs = {name: so_far.get(name, paths) for name, paths in job.inputs.items()}
            spec = {**job.spec}
            if "unfinished" in spec:
                spec["unfinished"] = missing
            jobs.append(job._replace(inputs=inputs, spec=spec))
    return jobs


def _write_runs(folder: Path, runs: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "runs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("key", "run"), *runs.items()])
    return path


def _write_searches(folder: Path, schedule: Schedule, scores: Scores) -> list[str]:
    paths = []
    for id, spec in schedule.searches.items():
        if scores.get(id):
            path = folder / f"{id}.json"
            path.write_text(json.dumps({id: outcome(spec, scores[id])}), encoding="utf-8")
            paths.append(str(path))
    return paths


def few_words(
    schedule: Schedule,
    results: Path,
    runs: Mapping[str, str],
    scores: Scores,
    given_up: Collection[str],
) -> str:
    """Return the answer so far in a few words."""
    from subtune.analysis.answer import answers
    from subtune.analysis.predictions import read_row_scores
    from subtune.analysis.scores import read_scores
    from subtune.exhibits.answer_tables import in_few_words
    from subtune.steps.run import run_job

    found = []
    for job in judging_jobs(schedule, results, runs, scores, given_up):
        if job.step == "scores":
            made: dict[str, Any] = {
                name: str(results / SO_FAR / job.id / Path(str(path)).name)
                for name, path in job.outputs.items()
            }
            run_job(job._replace(outputs=made))
            chosen, row_scores = read_scores(made["chosen"]), read_row_scores([made["row_scores"]])
            found += answers(chosen, row_scores, unfinished(schedule, runs, given_up))
    return "; ".join(map(in_few_words, found))


def can_be_judged(schedule: Schedule, runs: Mapping[str, str]) -> bool:
    """Return whether two methods have a run."""
    return len({schedule.methods[key] for key in runs}) > 1
