"""The tables, figures and report of a comparison, from the runs that are recorded so far."""

import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from subtune.analysis.answer import find_answers, short_answer
from subtune.analysis.candidates import compare_with_reference, judged_runs
from subtune.comparison.next_runs import FULL, Method, Progress
from subtune.core.files import drafts
from subtune.runs.learning_rates import describe_search
from subtune.steps import exhibits, report_page, runs, scores, summary
from subtune.steps.context import Context
from subtune.steps.jobs import files, run_job

# A method whose probability to be the answer is lower can hardly be the answer.
LEAST_PROBABILITY = 0.01
# A run's columns by name.
Finished = dict[str, Any]


def finished_runs(progress: Progress) -> list[Finished]:
    """Return recorded runs: what `subtune.analysis.tables.join_run_ids` adds to planned ones."""
    recorded, found = progress.find_recorded(), []
    for planned in progress.planned:
        if planned.key in recorded:
            entry: Finished = {"key": planned.key, "run": recorded[planned.key].id}
            if planned.search and (tried := progress.tried_rates(planned.search)):
                entry |= describe_search(progress.searches[planned.search], tried)
            # Not the best rate that was tried, if no run of this method has it yet.
            entry["learning_rate"] = recorded[planned.key].recipe.learning_rate
            found.append(entry)
    return found


def _with_plan(finished: Sequence[Finished], planned: Sequence[Finished]) -> list[Finished]:
    """Return finished runs with what a job's spec has about them."""
    about = {entry["key"]: entry for entry in planned}
    return [about[entry["key"]] | entry for entry in finished]


class AnswerSoFar(NamedTuple):
    """The answer of the runs that are recorded so far.

    Attributes:
        line: the answer in a line.
        unlikely: the methods that can hardly be the answer.
    """

    line: str
    unlikely: set[Method]


def find_answer_so_far(context: Context, progress: Progress) -> AnswerSoFar:
    """Return the answer of the recorded runs."""
    [job] = scores.jobs(context)
    tables = scores.make_score_tables(job, _with_plan(finished_runs(progress), job.spec["runs"]))
    chosen, row_scores = tables["chosen"], tables["row_scores"]
    answers = find_answers(chosen, row_scores)
    line = "; ".join(map(short_answer, answers))
    return AnswerSoFar(line, find_unlikely_methods(chosen, row_scores))


def find_unlikely_methods(chosen: pd.DataFrame, row_scores: pd.DataFrame) -> set[Method]:
    """Return the methods whose probability to be the answer is below `LEAST_PROBABILITY`.

    A method is the answer if it is within the margin and no smaller one is. Its probability is at
    most that of the former, and at most that of the latter.
    """
    pseudo_values, found = row_scores.set_index("run"), set[Method]()
    for model, same in judged_runs(chosen).groupby("model"):
        methods = dict(same[["title", "method"]].itertuples(index=False))
        smaller = 0.0
        for title, candidate in compare_with_reference(same, pseudo_values).methods.items():
            if methods[title] != FULL and candidate.studies:
                if min(candidate.chance, 1 - smaller) < LEAST_PROBABILITY:
                    found.add((str(model), methods[title]))
                smaller = max(smaller, candidate.chance)
    return found


def write_results(context: Context, progress: Progress, log: Path) -> None:
    """Write all tables, figures and the report of the recorded runs.

    They are the files that Snakemake makes of all planned runs. It makes them again from finished
    sweeps, because the tables of scores are older than the model's files.
    """
    finished = finished_runs(progress)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file, redirect_stdout(file):
        for job in scores.jobs(context):
            with drafts(job.outputs) as outputs:
                rows = _with_plan(finished, job.spec["runs"])
                for name, table in scores.make_score_tables(job, rows).items():
                    table.to_parquet(outputs[name], index=False)
            for path in files(job.outputs):
                os.utime(path, (1, 1))
        for job in chain(exhibits.jobs(context), summary.jobs(context)):
            run_job(job)
        for job in runs.jobs(context):
            rows = _with_plan(finished, job.spec["planned"])
            with drafts(job.outputs) as outputs:
                runs.write_table_of_runs(job, rows, outputs)
        for job in report_page.jobs(context):
            run_job(job)
