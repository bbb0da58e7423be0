"""Write the results of a comparison in a thread, while its runs are trained and at the end.

Early results are written as soon as a run is recorded. They measure how long tables, figures and
the report take while other programs use the same cores.
"""

import time
from importlib import import_module
from threading import Thread

from subtune.comparison.next_runs import Progress
from subtune.comparison.recorded_results import write_answers, write_report
from subtune.core.errors import SubtuneError
from subtune.steps.context import Context

# Modules that are imported before the first run is recorded.
LIBRARIES = ("subtune.papers.shared", "matplotlib.figure", "matplotlib.backends.backend_agg")
# Early results are written again each time the time since the start has doubled.
TIMES_LATER = 2
# The last results are started only if at least this share of the time that the previous results
# took is left. Later results are faster, because all libraries are imported.
LEAST_SHARE = 0.7


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

    def write_early(self, progress: Progress, now: float) -> None:
        """Start writing results if new runs are recorded and results are due."""
        if len(progress.scores) > self.shown and now >= self._next and not self._thread.is_alive():
            self._next = TIMES_LATER * now
            self._begin(progress)

    def finish(self, progress: Progress, seconds: float) -> bool:
        """Write the results, and return whether answers and report contain all recorded runs.

        If this takes longer than ``seconds``, earlier results of this call are kept.

        Raises:
            SubtuneError: no answers were written in time, or an output cannot be written.
        """
        end = time.monotonic() + seconds
        self._thread.join(seconds)
        left, has_new = end - time.monotonic(), self.shown < len(progress.scores)
        is_in_time = not self.answered or left > LEAST_SHARE * self.seconds
        if not self._thread.is_alive() and has_new and is_in_time:
            self._begin(progress)
            self._thread.join(max(end - time.monotonic(), 0))
        if self._error:
            raise self._error
        if not self.answered:
            raise SubtuneError(
                "--minutes: the time ran out before the answer was written; to see the recorded "
                "runs, run the comparison again with more minutes"
            )
        return self.shown == len(progress.scores)

    def _begin(self, progress: Progress) -> None:
        # The thread reads a copy, because the original scores change in the meantime.
        fixed = progress._replace(scores=dict(progress.scores))

        def write() -> None:
            start = time.monotonic()
            try:
                write_answers(self._context, fixed)
                self.answered = len(fixed.scores)
                write_report(self._context)
            except Exception as error:
                self._error = error
            else:
                self.seconds, self.shown = time.monotonic() - start, len(fixed.scores)

        self._error, self._thread = None, Thread(target=write, daemon=True)
        self._thread.start()
