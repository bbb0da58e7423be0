"""Write the results of a comparison: the answers, tables and figures of the recorded runs.

Results are written in a thread, while runs are trained and at the end. Early results are written as
soon as a run is recorded. They measure how long tables, figures and the report take while other
programs use the same cores.
"""

import os
import time
from collections.abc import Iterable
from importlib import import_module
from itertools import chain
from threading import Thread

from subtune.analysis.answer import Answer, find_answers, short_answer
from subtune.comparison.next_runs import Method, Progress
from subtune.core.errors import SubtuneError
from subtune.core.files import write_atomically
from subtune.methods import FULL
from subtune.steps import exhibits, report_page, runs, scores, summary
from subtune.steps.context import Context
from subtune.steps.jobs import list_files, run_job

# Modules that are imported before the first run is recorded.
LIBRARIES = ("subtune.papers.paper", "matplotlib.figure", "matplotlib.backends.backend_agg")
# Early results are written again each time the time since the start has doubled.
TIMES_LATER = 2
# The last results are started only if at least this share of the time that the previous results
# took is left. Later results are faster, because all libraries are imported.
LEAST_SHARE = 0.7
# A method whose probability of being the answer is below this threshold is unlikely.
LEAST_PROBABILITY = 0.01


class ResultsWriter:
    """Writes results in a thread, several times in a row.

    Attributes:
        seconds: the seconds that the last results took; 0 before the first results.
        shown: the number of recorded runs in the last report.
        answered: the number of recorded runs in the last answers.
    """

    def __init__(self, context: Context):
        """Import the libraries for tables and figures in a thread."""
        self._context, self._next, self.seconds = context, 0.0, 0.0
        self.shown = self.answered = 0
        self._error: Exception | None = None
        self._thread = Thread(target=lambda: [*map(import_module, LIBRARIES)], daemon=True)
        self._thread.start()

    def write_early(self, recorded: int, now: float) -> None:
        """Start writing results if new runs are recorded and results are due."""
        if recorded > self.shown and now >= self._next and not self._thread.is_alive():
            self._next = TIMES_LATER * now
            self._begin(recorded)

    def finish(self, recorded: int, seconds: float) -> bool:
        """Write the results, and return whether answers and report contain all ``recorded`` runs.

        If this takes longer than ``seconds``, earlier results of this call are kept.

        Raises:
            SubtuneError: no answers were written in time, or an output cannot be written.
        """
        end = time.monotonic() + seconds
        self._thread.join(seconds)
        left = end - time.monotonic()
        is_in_time = not self.answered or left > LEAST_SHARE * self.seconds
        if not self._thread.is_alive() and self.shown < recorded and is_in_time:
            self._begin(recorded)
            self._thread.join(max(end - time.monotonic(), 0))
        if self._error:
            raise self._error
        if not self.answered:
            raise SubtuneError(
                "--minutes: the time ran out before the answer was written; to see the recorded "
                "runs, run the comparison again with more minutes"
            )
        return self.shown == recorded

    def _begin(self, recorded: int) -> None:
        def write() -> None:
            start = time.monotonic()
            try:
                write_answers(self._context)
                self.answered = recorded
                write_report(self._context)
            except Exception as error:
                self._error = error
            else:
                self.seconds, self.shown = time.monotonic() - start, recorded

        self._error, self._thread = None, Thread(target=write, daemon=True)
        self._thread.start()


def write_answers(context: Context) -> None:
    """Write the scores, the answers and the table of all runs, from the records so far.

    The modification time of the score tables is set to 1970. Therefore Snakemake, which compares it
    with the times of the inputs, writes these files again once all planned runs are finished.
    Unlike in Snakemake's jobs, scores are not computed with ``evaluate``, because its import takes
    seconds.
    """
    # A comparison has one experiment, and therefore one job of each step.
    [scored], [summarised], [listed] = (step.jobs(context) for step in (scores, summary, runs))
    run_job(scored)
    for path in list_files(scored.outputs):
        os.utime(path, (1, 1))
    with write_atomically(summarised.outputs) as outputs:
        summary.write_summaries(summarised, outputs)
    run_job(listed)


def write_report(context: Context) -> None:
    """Write the other tables and figures and the report, after `write_answers`."""
    for job in chain(exhibits.jobs(context), report_page.jobs(context)):
        run_job(job)


def find_answer_so_far(context: Context, progress: Progress) -> tuple[str, set[Method]]:
    """Return the answer as one line, and the methods that are unlikely to be the answer."""
    [job] = scores.jobs(context)
    _, _, chosen, row_scores = scores.collect_run_scores(job, progress.join_recorded_runs())
    answers = find_answers(chosen, row_scores)
    return "; ".join(map(short_answer, answers)), find_unlikely_methods(answers)


def find_unlikely_methods(
    answers: Iterable[Answer], least: float = LEAST_PROBABILITY
) -> set[Method]:
    """Return the methods whose probability of being the answer is below ``least``.

    Let ``P(x)`` be the probability that method ``x`` scores lower than the reference by no more
    than the margin. Then method ``m`` is the answer with a probability of at most
    ``min(P(m), 1 - max_s P(s))``, where ``s`` ranges over all smaller methods.
    """
    found = set[Method]()
    for answer in answers:
        methods = dict(answer.runs[["title", "method"]].itertuples(index=False))
        best_smaller = 0.0
        for title, candidate in answer.compared.methods.items():
            if methods[title] != FULL and candidate.studies:
                if min(candidate.chance, 1 - best_smaller) < least:
                    found.add((candidate.model, methods[title]))
                best_smaller = max(best_smaller, candidate.chance)
    return found
