"""A job's log: what it reports, and at the end either nothing or one line that says what to do."""

import contextlib
import errno
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from subtune.errors import SubtuneError

# How a log's first line names the job that wrote it.
SLURM_JOB = "Slurm job"


@contextlib.contextmanager
def job(log: str | Path) -> Iterator[None]:
    """Send a job's output to ``log``, and forbid it the network and caches that others write.

    A `SubtuneError`, and a disk that is full, end the job with one line and no traceback.
    """
    with tempfile.TemporaryDirectory(prefix="subtune-") as own:
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": own, "HF_DATASETS_CACHE": own}
        with _logged(log):
            yield


@contextlib.contextmanager
def download_job(log: str | Path, cache: str | Path) -> Iterator[None]:
    """As `job`, for the jobs that may use the network. What they download is kept in ``cache``."""
    with tempfile.TemporaryDirectory(prefix="subtune-") as own:
        os.environ |= {"HF_HUB_CACHE": str(Path(cache).resolve()), "HF_DATASETS_CACHE": own}
        with _logged(log):
            yield


@contextlib.contextmanager
def _logged(log: str | Path) -> Iterator[None]:
    # Progress bars and thread pools of the libraries have no place in a log file.
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    where = f"on {socket.gethostname()}"
    if "SLURM_JOB_ID" in os.environ:
        where += f", {SLURM_JOB} {os.environ['SLURM_JOB_ID']}"
    with (
        open(log, "w", buffering=1, encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        report(where)
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
    print(f"error: {message} (log: {log})", file=sys.stderr)
    sys.exit(1)


def report(line: str) -> None:
    """Write one line, with the time of day, to the job's log."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
