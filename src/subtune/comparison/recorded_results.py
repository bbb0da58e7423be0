"""Compute the answer, tables, figures and report of a comparison from the recorded runs."""

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pandas as pd

from subtune.analysis.answer import find_answers, short_answer
from subtune.analysis.candidates import compare_with_reference, select_scored_runs
from subtune.comparison.next_runs import FULL, Method, Progress
from subtune.core.files import write_atomically
from subtune.runs.learning_rates import search_result
from subtune.steps import exhibits, report_page, runs, scores, summary
from subtune.steps.context import Context
from subtune.steps.jobs import list_files, run_job

# A method whose probability of being the answer is below this threshold is unlikely.
LEAST_PROBABILITY = 0.01
# A run as a row of a table: maps the names of columns to values.
Finished = dict[str, Any]


def join_recorded_runs(planned: Sequence[Finished], progress: Progress) -> list[Finished]:
    """Select the planned runs that are recorded, like `subtune.analysis.tables.join_run_ids`."""
    recorded, joined = progress.find_recorded_specs(), []
    for entry in planned:
        if entry["key"] in recorded:
            run, search = recorded[entry["key"]], entry["search"]
            tried = progress.tried_rates(search) if search else {}
            found = search_result(progress.searches[search], tried) if tried else {}
            # The best rate of the search is replaced by the rate of the recorded run, because the
            # run with the best rate may not be recorded yet.
            rate = {"learning_rate": run.recipe.learning_rate}
            joined.append({**entry, "run": run.id, **found, **rate})
    return joined


def find_answer_so_far(context: Context, progress: Progress) -> tuple[str, set[Method]]:
    """Return the answer as one line, and the methods that are unlikely to be the answer."""
    [job] = scores.jobs(context)
    rows = join_recorded_runs(job.spec["runs"], progress)
    _, _, chosen, row_scores = scores.collect_run_scores(job, rows)
    answers = find_answers(chosen, row_scores)
    line = "; ".join(map(short_answer, answers))
    return line, find_unlikely_methods(chosen, row_scores)


def find_unlikely_methods(chosen: pd.DataFrame, row_scores: pd.DataFrame) -> set[Method]:
    """Return the methods whose probability of being the answer is below `LEAST_PROBABILITY`.

    Let ``P(x)`` be the probability that method ``x`` scores lower than the reference by no more
    than the margin. Then method ``m`` is the answer with a probability of at most
    ``min(P(m), 1 - max_s P(s))``, where ``s`` ranges over all smaller methods.
    """
    pseudo_values, found = row_scores.set_index("run"), set[Method]()
    for model, same in select_scored_runs(chosen).groupby("model"):
        methods = dict(same[["title", "method"]].itertuples(index=False))
        best_smaller = 0.0
        for title, candidate in compare_with_reference(same, pseudo_values).methods.items():
            if methods[title] != FULL and candidate.studies:
                if min(candidate.chance, 1 - best_smaller) < LEAST_PROBABILITY:
                    found.add((str(model), methods[title]))
                best_smaller = max(best_smaller, candidate.chance)
    return found


def write_answers(context: Context, progress: Progress) -> None:
    """Write the scores, the answers and the table of all runs, from the recorded runs.

    The modification time of the score tables is set to 1970. Therefore Snakemake, which compares it
    with the times of the inputs, writes these files again once all planned runs are finished.
    Unlike in Snakemake's jobs, scores are not computed with ``evaluate``, because its import takes
    seconds.
    """
    # A comparison has one experiment, and therefore one job of each step.
    [scored], [summarised], [listed] = (step.jobs(context) for step in (scores, summary, runs))
    with write_atomically(scored.outputs) as outputs:
        rows = join_recorded_runs(scored.spec["runs"], progress)
        scores.write_score_tables(scored, rows, outputs)
    for path in list_files(scored.outputs):
        os.utime(path, (1, 1))
    with write_atomically(summarised.outputs) as outputs:
        summary.write_summaries(summarised, outputs)
    with write_atomically(listed.outputs) as outputs:
        rows = join_recorded_runs(listed.spec["planned"], progress)
        runs.write_table_of_runs(listed, rows, outputs)


def write_report(context: Context) -> None:
    """Write the other tables and figures and the report, after `write_answers`."""
    for job in chain(exhibits.jobs(context), report_page.jobs(context)):
        run_job(job)
