"""Call `subtune.compare` on tables that were not recorded, and judge its answers by a test set."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from benchmarks.decisions.measures import is_true, read_verdict
from benchmarks.decisions.record import open_context, score_on_test_set
from benchmarks.decisions.tables import UNSEEN, Source, write_table
from subtune import compare
from subtune.analysis.answer import find_answers
from subtune.analysis.chosen_runs import merge_experiments
from subtune.analysis.run_scores import read_row_scores
from subtune.analysis.tables import find_table_files, read_table
from subtune.comparison.first_configuration import EXPERIMENT
from subtune.comparison.results import CONFIGURATION
from subtune.core.files import require_new
from subtune.runs import records
from subtune.runs.learning_rates import join_recorded_runs

# The minutes of new comparisons. The last one is then continued, as the longest comparison.
MINUTES, MORE_MINUTES = (4, 10), 30


def call_tables(names: Sequence[str], source: Source, folder: Path) -> Iterator[str]:
    """Compare methods on tables, and yield two Markdown tables for each: answers and test scores.

    The ``folder`` must not have results of these tables.
    """
    for name in names:
        own = (folder / name).resolve()
        paths = write_table(UNSEEN[name], source, own / "tables")
        options = {**UNSEEN[name].options} | ({"dev": paths["dev"]} if "dev" in paths else {})
        rows = []
        for minutes, more in [*((m, m) for m in MINUTES), (MINUTES[-1], MORE_MINUTES)]:
            results = own / str(minutes)
            if more == minutes:
                require_new(results)
            found = compare(paths["train"], results=results, minutes=more, **options)
            chosen = [read_table(path, "scores") for path in find_table_files(results, "chosen")]
            row_scores = read_row_scores(find_table_files(results, "row_scores"))
            [answer] = find_answers(merge_experiments(chosen), row_scores)
            total = minutes if more == minutes else minutes + more
            rows.append((total, found.answer.splitlines()[0], read_verdict(answer)))
        scores = score_methods(own / str(MINUTES[-1]), paths["test"])
        answers = [
            {"minutes": minutes, "answer": line}
            | {"true": is_true(verdict, scores) if verdict.method else None}
            for minutes, line, verdict in rows
        ]
        yield pd.DataFrame(answers).to_markdown(index=False, missingval="–")
        yield pd.Series(scores, name=f"{name}, test").to_frame().to_markdown(floatfmt=".3f")


def score_methods(results: Path, test: Path) -> dict[str, float]:
    """Average the scores of a comparison's methods on a test set, over all recorded runs."""
    configuration = results / CONFIGURATION
    context = open_context(configuration)
    planned = context.plan.experiments[EXPERIMENT]
    metric = planned[0].spec.tokens.data.task.metrics[0]
    score = partial(records.read_score, Path(context.layout.records()))
    planned_runs = {run.key: run for run in planned}
    joined = join_recorded_runs(planned, score)
    largest = max(row["train_rows"] for row in joined)
    scores = defaultdict[str, dict[str, float]](dict)
    for row in joined:
        spec, rate = planned_runs[row["key"]].spec, row["learning_rate"]
        spec = spec.with_learning_rate(rate) if rate else spec
        # Seeds of a regression on embeddings share a run. A run that diverged has no score.
        is_new = row["train_rows"] == largest and spec.id not in scores[row["method"]]
        if is_new and not math.isnan(score(spec) or 0):
            scores[row["method"]][spec.id] = score_on_test_set(configuration, spec, test)[metric]
    return {
        method: sum(own.values()) / len(own) if own else math.nan for method, own in scores.items()
    }
