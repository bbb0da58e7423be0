"""The device that computes: its name, its memory and the energy that it has used."""

import ctypes
import platform
import re
import sys
from pathlib import Path

import torch

# Names of glibc's <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1
POWER = Path("/sys/class/powercap")
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


def keep_freed_memory() -> bool:
    """Stop glibc from giving freed memory back to the system after every training step.

    Faulting the same pages in again takes up to a quarter of a small model's step. Return whether
    it could be done: without glibc nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))


def prepare(threads: int) -> torch.device:
    """Set the number of threads and return the device to compute on: a GPU if there is one."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: torch.device) -> str:
    """Return the product name of a GPU, or of the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def processor_name() -> str:
    """Return the processor's product name."""
    names = Path("/proc/cpuinfo")
    text = names.read_text() if names.is_file() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device or the processor is out of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY)


class EnergyMeter:
    """Joules that a whole device has used since the last `spent`, by all its users.

    A processor's counter starts anew every hour or so under load, so `read` must be called more
    often than that.
    """

    def __init__(self, device: torch.device):
        self._counters = _gpu_counter(device) if device.type == "cuda" else _processor_counters()
        self._last = [counter() for counter, _ in self._counters]
        self._joules = 0.0

    def read(self) -> None:
        """Add the growth of the counters."""
        now = [counter() for counter, _ in self._counters]
        for before, after, (_, turn) in zip(self._last, now, self._counters, strict=True):
            self._joules += after - before if after >= before else after - before + turn
        self._last = now

    def spent(self) -> float | None:
        """Return the joules since the last call; None if the machine does not let us read them."""
        if not self._counters:
            return None
        self.read()
        joules, self._joules = self._joules, 0.0
        return joules


def _processor_counters() -> list:
    """Return counters of all packages (RAPL) in joules, and the value where each starts anew."""
    counters = []
    for domain in sorted(POWER.glob("intel-rapl:?")):
        try:
            turn = int((domain / "max_energy_range_uj").read_text()) / 1e6
            (domain / "energy_uj").read_text()
        except (OSError, ValueError):
            continue
        counters.append((lambda path=domain / "energy_uj": int(path.read_text()) / 1e6, turn))
    return counters


def _gpu_counter(device: torch.device) -> list:
    """Return the counter of one GPU (NVML, Volta or newer) in joules."""
    import pynvml

    try:
        pynvml.nvmlInit()
        identifier = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(identifier)
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError:
        return []
    return [(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3, 0.0)]
