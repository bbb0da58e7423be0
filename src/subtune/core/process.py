"""The process of a job: its log, stop signals, device, cores and memory."""

import atexit
import ctypes
import errno
import getpass
import io
import os
import platform
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from subtune.core.errors import SubtuneError
from subtune.core.gpus import count_gpus
from subtune.core.limits import read_cpu_quota

# Importing torch takes a second, and planning does not need it.
if TYPE_CHECKING:
    import torch

# Schedulers send a signal before a time limit or preemption; Ctrl+C sends SIGINT.
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
# Constants of glibc's <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1
# If memory is used up, PyTorch raises a RuntimeError with one of these texts in its message. The
# last two are from oneDNN.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
    "could not create a primitive",
    "could not create a memory",
)


class Log(io.TextIOWrapper):
    """The log of a job. If the disk is full, lines are lost and the job continues."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def close(self) -> None:
        # A network file system may report a full disk only when a file is closed.
        with suppress(OSError):
            super().close()


@contextmanager
def redirect_job_output(log: str | Path) -> Iterator[None]:
    """Redirect the output of a job to a log, and set a separate cache directory for the job.

    After an error that a user can fix, the job exits with a one-line message and no traceback.
    """
    # Progress bars make a log unreadable. The last setting suppresses warnings of tokenizers.
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with ExitStack() as held:
        try:
            private = held.enter_context(tempfile.TemporaryDirectory(prefix="subtune-"))
            file = Log(io.FileIO(log, "w"), encoding="utf-8", write_through=True)
            for context in (file, redirect_stdout(file), redirect_stderr(file)):
                held.enter_context(context)
            os.environ["HF_DATASETS_CACHE"] = private
            slurm_job = os.environ.get("SLURM_JOB_ID")
            end = f", Slurm job {slurm_job}" if slurm_job else ""
            log_line(f"on {socket.gethostname()}{end}")
            yield
            return
        except Exception as error:
            message = message_for_user(error)
            if message is None:
                traceback.print_exc()
                raise
        log_line(f"error: {message}")
    print(f"error: {message} (log: {log})", file=sys.stderr)
    sys.exit(1)


def set_hub_cache(hub_cache: str | Path | None) -> None:
    """Set a job's directory for downloads. If None, the job works offline."""
    if hub_cache:
        os.environ["HF_HUB_CACHE"] = str(Path(hub_cache).resolve())
    else:
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": os.environ["HF_DATASETS_CACHE"]}


def end_process(status: int) -> NoReturn:
    """Run the exit handlers and end this process, without freeing its memory first.

    If torch is imported, freeing all modules takes a second and makes Triton print warnings.
    """
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


@contextmanager
def end_late_process(seconds: float, line: str) -> Iterator[None]:
    """If the block takes too long, print a line and end this process, even inside library code."""

    def end() -> None:
        print(line, file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def message_for_user(error: BaseException) -> str | None:
    """Return the message for an error that users can fix, or None for any other error."""
    if isinstance(error, SubtuneError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # When copying a file fails, `filename2` is the destination.
        written = error.filename2 or error.filename or "while writing"
        return f"the disk is full ({written}); free some space"
    return None


def ensure_user_name() -> None:
    """Set ``USER`` if this user id has no name, because Snakemake and PyTorch fail without one."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = str(os.getuid())


def print_line(line: str) -> None:
    """Print a line about the progress to stderr."""
    print(line, file=sys.stderr, flush=True)


def log_line(line: str) -> None:
    """Write a line to the job's log, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


class StoppedError(SubtuneError):
    """Training stopped on request before its end. Its checkpoint is kept."""


@contextmanager
def stop_requests() -> Iterator[Callable[[], str | None]]:
    """Yield a function that returns the name of the first signal received, or None.

    In this block, `SIGNALS` do not end the process, except for a Ctrl+C after another signal. An
    existing handler of SIGTERM is still called.
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
    """Return the number of cores that this process may use, at least 1."""
    # Only Linux reports this number for a single process.
    on_machine = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    # A quota is rounded down, because the process that starts the jobs needs time, too.
    return max(1, int(min(on_machine, read_cpu_quota())))


def process_age() -> float:
    """Return the seconds since the start of this process, or 0 on systems other than Linux."""
    try:
        # The name in parentheses may contain spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0)
    except (OSError, AttributeError):
        return 0


def keep_freed_memory() -> None:
    """Keep glibc from returning freed memory to the operating system after every training step."""
    # Page faults would otherwise take up to a quarter of a small model's training time.
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, NEVER)


def prepare_device(threads: int) -> "torch.device":
    """Set PyTorch's number of threads, and return the device: a GPU if available, else the CPU."""
    import torch

    keep_freed_memory()
    torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: "torch.device") -> str:
    """Return the product name of the GPU or processor."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    names = Path("/proc/cpuinfo")
    text = names.read_text() if names.is_file() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def count_jobs_at_once() -> int:
    """Return the number of jobs that train at the same time: one per GPU, or else one per core."""
    return min(count_gpus(), count_cores()) or count_cores()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the GPU or the machine is out of memory."""
    has_text = any(text in str(error) for text in OUT_OF_MEMORY)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and has_text)
