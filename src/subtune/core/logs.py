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

from subtune.core.errors import SubtuneError


@contextlib.contextmanager
def job(log: str | Path) -> Iterator[None]:
    """Send a job's output to ``log``, and forbid it the network and caches that others write.

    A `SubtuneError`, and a disk that is full, end the job with one line and no traceback.
    """
    with tempfile.TemporaryDirectory(prefix="subtune-") as private:
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": private, "HF_DATASETS_CACHE": private}
        with _logged(log):
            yield


@contextlib.contextmanager
def download_job(log: str | Path, cache: str | Path) -> Iterator[None]:
    """As `job`, for the jobs that may use the network. What they download is kept in ``cache``."""
    with tempfile.TemporaryDirectory(prefix="subtune-") as private:
        os.environ |= {"HF_HUB_CACHE": str(Path(cache).resolve()), "HF_DATASETS_CACHE": private}
        with _logged(log):
            yield


@contextlib.contextmanager
def _logged(log: str | Path) -> Iterator[None]:
    # Progress bars and thread pools of the libraries have no place in a log file.
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with (
        open(log, "w", buffering=1, encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        report(place())
        try:
            yield
            return
        except Exception as error:
            message = message_of(error)
            if message is None:
                raise
        report(f"error: {message}")
    print(f"error: {message} (log: {log})", file=sys.stderr)
    sys.exit(1)


def message_of(error: BaseException) -> str | None:
    """What to tell people of an error; None of one that they cannot mend."""
    if isinstance(error, SubtuneError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # Where one file is copied to another, the second is what was written.
        written = error.filename2 or error.filename or "while writing"
        return f"the disk is full ({written}): free some space"
    return None


def place() -> str:
    """Where this job runs."""
    slurm_job = os.environ.get("SLURM_JOB_ID")
    return f"on {socket.gethostname()}" + (f", Slurm job {slurm_job}" if slurm_job else "")


def report(line: str) -> None:
    """Write one line, with the time of day, to the job's log."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
