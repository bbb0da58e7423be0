"""The machine that computes: its device, processor, cores and memory."""

import contextlib
import ctypes
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Importing torch takes a second, which planning does not wait for.
if TYPE_CHECKING:
    import torch

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


def count_cores() -> int:
    """Return how many cores this process may use."""
    # Only Linux reports the number for a single process.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Stop glibc from giving freed memory back to the system after every training step.

    Page faults would take up to a quarter of a small model's step. Without glibc nothing changes.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, NEVER)


def prepare(threads: int) -> "torch.device":
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
    """Return how many jobs train at the same time: one on a GPU, else one per core."""
    import torch

    return 1 if torch.cuda.is_available() else count_cores()


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
