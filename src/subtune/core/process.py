"""A job's process: its log, the signals that ask it to stop, its device, cores and memory."""

import atexit
import ctypes
import errno
import getpass
import os
import platform
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from subtune.core.errors import SubtuneError
from subtune.core.gpus import count_gpus

# Importing torch takes a second, which planning does not wait for.
if TYPE_CHECKING:
    import torch

# Sent by a scheduler before the time limit or a preemption, and by the keyboard.
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
# Constants of glibc's <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1
# PyTorch's messages for failed allocations without an exception class; the last two are oneDNN's.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
    "could not create a primitive",
    "could not create a memory",
)


@contextmanager
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
    with (
        tempfile.TemporaryDirectory(prefix="subtune-") as private,
        open(log, "w", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
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
            message = user_message(error)
            if message is None:
                raise
        report(f"error: {message}")
    print(f"error: {message} (log: {log})", file=sys.stderr)
    sys.exit(1)


def end_process(status: int) -> NoReturn:
    """End this process after its exit handlers, and leave its memory to the system.

    Python would first free every module, which takes a second with torch imported. Extensions such
    as Triton would then write below the answer what they found that was not freed.
    """
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def user_message(error: BaseException) -> str | None:
    """Return the line to show for an error that users can fix, else None."""
    if isinstance(error, SubtuneError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # If a file was copied, the second name is the copy's.
        written = error.filename2 or error.filename or "while writing"
        return f"the disk is full ({written}): free some space"
    return None


def ensure_user_name() -> None:
    """Give this user id a name in ``USER`` if it has none, which is usual in containers.

    Snakemake and PyTorch ask for the name, and fail without one.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = str(os.getuid())


def report(line: str) -> None:
    """Write one line, with the time of day, to the job's log."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


class StoppedError(SubtuneError):
    """Training was asked to stop. Its work is kept."""


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


def count_cores() -> int:
    """Return how many cores this process may use."""
    # Only Linux reports the number for a single process.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Stop glibc from giving freed memory back to the system after every training step.

    Page faults would take up to a quarter of a small model's step. Without glibc nothing changes.
    """
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, NEVER)


def prepare_device(threads: int) -> "torch.device":
    """Set the number of threads and return the device to compute on: a GPU if there is one."""
    import torch

    keep_freed_memory()
    torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: "torch.device") -> str:
    """Return the product name of a GPU, or of the processor."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def count_jobs_at_once() -> int:
    """Return how many jobs train at the same time: one on each GPU, else one on each core."""
    return min(count_gpus(), count_cores()) or count_cores()


def processor_name() -> str:
    """Return the processor's product name."""
    names = Path("/proc/cpuinfo")
    text = names.read_text() if names.is_file() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device or the processor is out of memory."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY)
