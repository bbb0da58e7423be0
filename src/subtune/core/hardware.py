"""The device that computes: which it is, its name, and the energy it has used."""

import platform
import re
from pathlib import Path

import torch

from subtune.core.malloc import keep_freed_memory

POWER = Path("/sys/class/powercap")
# What PyTorch says where an allocation fails and the error has no class of its own; the last are
# oneDNN's words for it.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
    "could not create a primitive",
    "could not create a memory",
)


def prepare(threads: int) -> torch.device:
    """The device that this process computes on, a GPU where there is one, with so many threads."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: torch.device) -> str:
    """A GPU's product name, or the processor's."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def processor_name() -> str:
    """As its maker calls it."""
    names = Path("/proc/cpuinfo")
    text = names.read_text() if names.is_file() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was wanted, of a device or of the processor, that is not there."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY)


class EnergyMeter:
    """Joules that a device has used since the last `spent`: all of it, whoever else computes there.

    A processor's counter starts anew every hour or so under load, so that `read` has to be called
    more often than that.
    """

    def __init__(self, device: torch.device):
        self._counters = _gpu_counter(device) if device.type == "cuda" else _processor_counters()
        self._last = [counter() for counter, _ in self._counters]
        self._joules = 0.0

    def read(self) -> None:
        """Add what the counters have gained."""
        now = [counter() for counter, _ in self._counters]
        for before, after, (_, turn) in zip(self._last, now, self._counters, strict=True):
            self._joules += after - before if after >= before else after - before + turn
        self._last = now

    def spent(self) -> float | None:
        """Joules since this was last called; none where the machine does not let us read them."""
        if not self._counters:
            return None
        self.read()
        joules, self._joules = self._joules, 0.0
        return joules


def _processor_counters() -> list:
    """Counters of all packages (RAPL), in joules, and where each starts anew."""
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
    """The counter of one GPU (NVML, Volta or newer), in joules."""
    import pynvml

    try:
        pynvml.nvmlInit()
        identifier = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(identifier)
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError:
        return []
    return [(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3, 0.0)]
