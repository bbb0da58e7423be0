"""The cores and the memory that this process may use, on a machine or in a container.

The functions read Linux's files below ``root``, and report no limits on other systems.
"""

import math
import resource
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def _list_control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the directories of this process's control groups, innermost first.

    The limits of all groups apply. cgroup v1 has one hierarchy per controller; v2 has a single
    hierarchy for all controllers. In a container, the outer groups may be invisible.
    """
    lines = _read_lines(root / "proc/self/cgroup")
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controller in controllers.split(",") or not controllers:
            top = root / "sys/fs/cgroup" / (controller if controllers else "")
            group = top / path.strip("/")
            yield from (each for each in (group, *group.parents) if each.is_relative_to(top))


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _read_number(lines: list[str], key: str = "", column: int = 0) -> float:
    """Return the number in a ``column`` of the first line that starts with ``key``, or infinity."""
    words = next((line[len(key) :].split() for line in lines if line.startswith(key)), [])
    word = words[column] if column < len(words) else "max"
    return math.inf if word in ("max", "-1") else float(word)


def read_cpu_quota(root: Path = ROOT) -> float:
    """Return the number of cores that the quotas of the control groups allow, or infinity."""
    quotas = [math.inf]
    for group in _list_control_groups("cpu", root):
        both = _read_lines(group / "cpu.max")
        quotas.append(_read_number(both) / min(_read_number(both, column=1), 1e9))
        period = min(_read_number(_read_lines(group / "cpu.cfs_period_us")), 1e9)
        quotas.append(_read_number(_read_lines(group / "cpu.cfs_quota_us")) / period)
    return min(quotas)


def read_free_memory(root: Path = ROOT) -> float:
    """Return the free memory for processes in bytes, or infinity. File caches count as free."""
    free = [1024 * _read_number(_read_lines(root / "proc/meminfo"), "MemAvailable:")]
    for group in _list_control_groups("memory", root):
        for limit, usage, cache in (
            ("memory.max", "memory.current", "inactive_file "),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
        ):
            used = _read_number(_read_lines(group / usage))
            if math.isfinite(used):
                cached = _read_number(_read_lines(group / "memory.stat"), cache)
                used -= cached if math.isfinite(cached) else 0
                free.append(_read_number(_read_lines(group / limit)) - used)
    return min(free)


def read_address_limit() -> float:
    """Return the limit of a process's address space in bytes (``ulimit -v``), or infinity."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


def read_process_memory(process: int, root: Path = ROOT) -> tuple[int, int]:
    """Return the current and peak resident memory of a process in bytes, or 0 and 0 if unknown."""
    lines = _read_lines(root / "proc" / str(process) / "status")
    now, peak = (1024 * _read_number(lines, key) for key in ("VmRSS:", "VmHWM:"))
    return (int(now), int(peak)) if math.isfinite(now + peak) else (0, 0)
