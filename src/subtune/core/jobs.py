"""A job: its log, and the signals that ask it to stop.

After a user's mistake the log ends in one line.
"""

import atexit
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from subtune.core.errors import SubtuneError

# A group of runs keeps the newest checkpoint and the one before it.
CHECKPOINTS_KEPT = 2


@contextlib.contextmanager
def job_log(log: str | Path, hub_cache: str | Path | None = None) -> Iterator[None]:
    """Send a job's output to a log, and keep the job from shared caches.

    A `SubtuneError` or a full disk ends the job with one line and no traceback.

    Args:
        log: the path of the log.
        hub_cache: the directory of downloads. Without it, the job uses no network.
    """
    # Progress bars make a log file unreadable; thread pools write warnings into it.
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    skip_final_garbage_collection()
    with (
        tempfile.TemporaryDirectory(prefix="subtune-") as private,
        open(log, "w", buffering=1, encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        os.environ["HF_DATASETS_CACHE"] = private
        if hub_cache:
            os.environ["HF_HUB_CACHE"] = str(Path(hub_cache).resolve())
        else:
            os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": private}
        slurm_job = os.environ.get("SLURM_JOB_ID")
        report(f"on {socket.gethostname()}" + (f", Slurm job {slurm_job}" if slurm_job else ""))
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


def skip_final_garbage_collection() -> None:
    """Skip Python's last garbage collection, which takes a second with torch imported."""
    atexit.register(gc.freeze)


def message_of(error: BaseException) -> str | None:
    """Return the line to show for an error that users can fix, else None."""
    if isinstance(error, SubtuneError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # If a file was copied, the second name is the copy's.
        written = error.filename2 or error.filename or "while writing"
        return f"the disk is full ({written}): free some space"
    return None


def report(line: str) -> None:
    """Write one line, with the time of day, to the job's log."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


class StoppedError(SubtuneError):
    """Training was asked to stop. Its work is kept."""


# Sent by a scheduler before the time limit or a preemption, and by the keyboard.
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[Callable[[], str | None]]:
    """Yield a function that returns the name of the first signal that came, or None.

    Inside the context, `SIGNALS` do not end the process, except for a second one from the keyboard.
    A function that handled SIGTERM before still gets it.
    """
    received: list[str] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number).name)
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        end = before[signal.SIGTERM]
        if number == signal.SIGTERM and callable(end):
            end(number, frame)

    for number in SIGNALS:
        signal.signal(number, receive)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
