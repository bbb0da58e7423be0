"""A job's log: what it reports, and at the end either nothing or one line that says what to do."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from subtune.errors import SubtuneError


@contextlib.contextmanager
def job(log: str | Path) -> Iterator[None]:
    """Send a job's output to ``log`` and forbid it the network.

    A `SubtuneError`, and a disk that is full, end the job with one line and no traceback.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    with download_job(log):
        yield


@contextlib.contextmanager
def download_job(log: str | Path) -> Iterator[None]:
    """As `job`, for the jobs that may use the network."""
    # Progress bars and thread pools of the libraries have no place in a log file.
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with (
        open(log, "w", buffering=1, encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        try:
            yield
        except SubtuneError as error:
            message = str(error)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = f"the disk is full ({error.filename or 'while writing'}): free some space"
        else:
            return
        report(f"error: {message}")
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def report(line: str) -> None:
    """Write one line, with the time of day, to the job's log."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
