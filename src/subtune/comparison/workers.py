"""Start, stop and communicate with the worker processes of `subtune.compare`."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from subtune.core.files import Layout
from subtune.core.limits import read_address_limit, read_free_memory, read_process_memory
from subtune.steps.jobs import Job

# The maximum time that the caller waits for a worker before it reads the clock again.
LONGEST_WAIT = 1.0
# Idle workers that were asked to end are killed after this time.
SECONDS_TO_END = 2
# The time between two requests to stop. Requests are repeated because a worker may miss one.
SECONDS_BETWEEN_REQUESTS = 0.5
# The share of the free memory that jobs may use.
MEMORY_SHARE = 0.8
# The peak memory of a running job counts as measured once it grows by less than a factor of
# `GROWTH` in `SECONDS_UNCHANGED`.
SECONDS_UNCHANGED, GROWTH = 20, 1.02


class EndedJob(NamedTuple):
    """A job that has ended. A job that stopped on request has no ``error``."""

    job: Job
    error: str | None = None
    has_crashed: bool = False


class Workers:
    """Processes that run jobs in parallel. All but the first are started on demand.

    Each worker runs `subtune.steps.worker` in its own session, so that Ctrl-C reaches only the
    caller. If the caller is killed, the system closes the pipes of the workers, and they exit.

    Attributes:
        number: the maximum number of jobs that run at the same time.
    """

    def __init__(self, results: Path, lock: int):
        """Start the first worker now, because importing its libraries takes seconds.

        The workers write their output to ``results``, and keep the lock file open until they exit.
        """
        self.number, self._results, self._lock = 1, results, lock
        self._answers: SimpleQueue[tuple[subprocess.Popen, str]] = SimpleQueue()
        self._idle = [self._start_process(None)]
        self._busy: dict[subprocess.Popen, Job] = {}
        self._memory = MemoryGauge()

    @property
    def running(self) -> list[Job]:
        return [*self._busy.values()]

    def find_lack_of_memory(self, job: Job) -> str | None:
        """Return why a job must wait for the end of another job, or None if it can start now."""
        busy = {process.pid: other for process, other in self._busy.items()}
        return self._memory.find_lack(job, busy, [process.pid for process in self._idle])

    def start(self, job: Job, log: Path) -> None:
        """Start a job in an idle or a new worker. The output of the job is written to ``log``."""
        cache = _hub_cache(job)
        process = self._start_process(cache) if cache or not self._idle else self._idle.pop()
        order = {"job": job._asdict(), "log": str(log)}
        self._busy[process] = job
        assert process.stdin is not None
        # If the worker process has ended, `next_end` reports this.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{json.dumps(order)}\n")
            process.stdin.flush()

    def _start_process(self, hub_cache: str | None) -> subprocess.Popen:
        """Start a worker process. If ``hub_cache`` is None, it does not use the hub."""
        network = {"HF_HUB_CACHE": hub_cache} if hub_cache else {"HF_HUB_OFFLINE": "1"}
        log = Path(Layout(str(self._results)).log("workers"))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "subtune.steps.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
                pass_fds=[self._lock],
                env=os.environ | network | {"OMP_NUM_THREADS": "1"},
            )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put((process, line))
        self._answers.put((process, ""))

    def next_end(self, seconds: float) -> EndedJob | None:
        """Wait for the end of a job and return it, or None if no job ends within ``seconds``."""
        for process, job in self._busy.items():
            self._memory.measure(process.pid, job)
        try:
            process, line = self._answers.get(timeout=max(seconds, 0))
        except Empty:
            return None
        ended = self._busy.pop(process, None)
        if ended is None:
            # An idle worker process has ended.
            process.wait()
            self._idle = [other for other in self._idle if other is not process]
            return None
        self._memory.measure(process.pid, ended, has_ended=True)
        if not line:
            return EndedJob(ended, describe_exit(process.wait()), has_crashed=True)
        if _hub_cache(ended):
            process.terminate()
        else:
            self._idle.append(process)
        return EndedJob(ended, **json.loads(line))

    def stop(self, seconds: float) -> None:
        """Stop all running jobs. Kill workers that are still busy after ``seconds``."""
        until = time.monotonic() + seconds
        while self._busy and time.monotonic() < until:
            for process in self._busy:
                process.send_signal(signal.SIGUSR1)
            self.next_end(min(SECONDS_BETWEEN_REQUESTS, until - time.monotonic()))
        for process in self._busy:
            process.kill()
        while self._busy:
            self.next_end(SECONDS_BETWEEN_REQUESTS)

    def close(self) -> None:
        """End all workers, without waiting for those that still write a checkpoint."""
        for process in self._idle:
            process.terminate()
        end = time.monotonic() + SECONDS_TO_END
        for process in self._idle:
            try:
                process.wait(max(end - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in [*self._busy]:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def _hub_cache(job: Job) -> str | None:
    """Return the directory for downloads from the hub, or None if the job downloads nothing."""
    return job.resources["hub_cache"] if job.spec.get("source") == "hub" else None


def describe_exit(exit_status: int) -> str:
    """Describe how a worker process ended, from its exit status (``-n`` after signal ``n``)."""
    if exit_status == -signal.SIGKILL:
        return "the worker process was killed, probably because it ran out of memory"
    if exit_status < 0:
        return f"the worker process was killed by {signal.Signals(-exit_status).name}"
    log = "see logs/workers.log in the results directory"
    return f"the worker process ended with status {exit_status}; {log}"


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
        free = MEMORY_SHARE * min(free, read_address_limit())
        others = [max(self._expect(other), used[process]) for process, other in busy.items()]
        others += sorted(used[process] for process in idle)[1:]
        needed = self._expect(job)
        if not busy or math.isinf(free) or sum(others) + needed <= free:
            return None
        return (
            f"memory: a job uses up to {needed / 1e9:.1f} GB, and all jobs together may use "
            f"{free / 1e9:.1f} GB ({MEMORY_SHARE:.0%} of the free memory), so other jobs wait "
            f"until one of {len(busy)} ends"
        )
