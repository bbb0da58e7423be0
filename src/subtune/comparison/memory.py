"""Decide from memory measurements whether another job can start alongside running jobs."""

import math
import time
from collections.abc import Collection, Mapping

from subtune.core.limits import read_address_limit, read_free_memory, read_process_memory
from subtune.steps.jobs import Job

# The share of the free memory that jobs may use.
SHARE = 0.8
# The peak memory of a running job counts as measured once it grows by less than a factor of
# `GROWTH` in `SECONDS_UNCHANGED`.
SECONDS_UNCHANGED, GROWTH = 20, 1.02


class MemoryGauge:
    """Measures the main memory of jobs. Jobs with the same ``memory_kind`` need about the same.

    Until a job of the same kind is measured, a job is expected to use the plan's estimate
    ``mem_mb``, which is large. On systems other than Linux, memory is unknown and never limits
    jobs.
    """

    def __init__(self) -> None:
        self._measured: dict[str, int] = {}
        # The peak memory of each process during a job, and the time at which it was reached.
        self._maxima: dict[tuple[int, str], tuple[int, float]] = {}

    def measure(self, process: int, job: Job, has_ended: bool = False) -> None:
        """Measure a process that runs a job or has just finished it."""
        (_, peak), now = read_process_memory(process), time.monotonic()
        before, since = self._maxima.setdefault((process, job.id), (peak, now))
        if peak > GROWTH * before:
            self._maxima[process, job.id] = peak, now
        kind = job.resources.get("memory_kind")
        if kind and peak and (has_ended or now - since > SECONDS_UNCHANGED):
            self._measured[kind] = max(peak, self._measured.get(kind, 0))

    def _expect(self, job: Job) -> float:
        estimate = 1e6 * job.resources.get("mem_mb", 0)
        return self._measured.get(job.resources.get("memory_kind", ""), estimate)

    def find_lack(self, job: Job, busy: Mapping[int, Job], idle: Collection[int]) -> str | None:
        """Return why a job must wait for the end of another job, or None if it can start now."""
        used = {process: read_process_memory(process)[0] for process in (*busy, *idle)}
        free = read_free_memory() + sum(used.values())
        free = SHARE * min(free, read_address_limit())
        others = [max(self._expect(other), used[process]) for process, other in busy.items()]
        others += sorted(used[process] for process in idle)[1:]
        needed = self._expect(job)
        if not busy or math.isinf(free) or sum(others) + needed <= free:
            return None
        return (
            f"memory: a job uses up to {needed / 1e9:.1f} GB, and all jobs together may use "
            f"{free / 1e9:.1f} GB ({SHARE:.0%} of the free memory), so other jobs wait until one "
            f"of {len(busy)} ends"
        )
