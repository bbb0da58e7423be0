"""Worker processes of `subtune.compare`. They run `subtune.steps.worker`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from subtune.core.files import Layout
from subtune.steps.jobs import Job

# The longest wait for a worker, after which callers read the clock again.
LONGEST_WAIT = 1.0
# The maximum time for an idle worker to end.
SECONDS_TO_END = 3
# The time between two requests to stop: a worker may miss one.
SECONDS_BETWEEN_REQUESTS = 0.5


class Ended(NamedTuple):
    """A job that has ended.

    Attributes:
        job: the job.
        error: the message, if the job failed.
        stopped: whether the job was asked to stop.
        exit_status: the exit status, if the worker itself ended; negative after a signal.
    """

    job: Job
    error: str | None = None
    stopped: bool = False
    exit_status: int | None = None


def _hub_cache(job: Job) -> str | None:
    """Return the folder of downloads, if a job downloads."""
    return job.resources["hub_cache"] if job.spec.get("source") == "hub" else None


class Workers:
    """Processes that do jobs side by side. All but the first are started when they are needed.

    Workers have their own session, so that Ctrl-C reaches their caller alone. The system closes
    their pipes if the caller is killed; they then end by themselves.

    Attributes:
        number: how many jobs are done at the same time.
    """

    def __init__(self, results: Path, lock: int):
        """Start one worker, whose libraries take seconds to import.

        Args:
            results: their current folder, which gets their log.
            lock: the file descriptor of a locked file, which they hold until they end.
        """
        self.number, self._results, self._lock = 1, results, lock
        self._answers: SimpleQueue[tuple[subprocess.Popen, str]] = SimpleQueue()
        self._idle = [self._new(None)]
        self._busy: dict[subprocess.Popen, Job] = {}

    @property
    def running(self) -> list[Job]:
        """The jobs that are being done."""
        return [*self._busy.values()]

    @property
    def free(self) -> int:
        """The number of jobs that can start now."""
        return self.number - len(self._busy)

    def start(self, job: Job, log: Path) -> None:
        """Give a job to a worker."""
        cache = _hub_cache(job)
        process = self._new(cache) if cache or not self._idle else self._idle.pop()
        order = {"job": job._asdict(), "log": str(log)}
        self._busy[process] = job
        assert process.stdin is not None
        # If the worker has ended, the end of its answers says so.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{json.dumps(order)}\n")
            process.stdin.flush()

    def _new(self, hub_cache: str | None) -> subprocess.Popen:
        """Start a worker. Without a ``hub_cache``, its libraries use no network."""
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
                cwd=self._results,
                env=os.environ | network | {"OMP_NUM_THREADS": "1"},
            )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put((process, line))
        self._answers.put((process, ""))

    def next_end(self, seconds: float) -> Ended | None:
        """Return the next job that ends, or None if none does within some seconds."""
        try:
            process, line = self._answers.get(timeout=max(seconds, 0))
        except Empty:
            return None
        job = self._busy.pop(process, None)
        if line:
            if job and _hub_cache(job):
                process.terminate()
            else:
                self._idle.append(process)
            return Ended(job, **json.loads(line)) if job else None
        status = process.wait()
        if job is None:
            self._idle = [other for other in self._idle if other is not process]
            return None
        return Ended(job, exit_status=status)

    def stop(self, seconds: float) -> list[Ended]:
        """Ask all jobs to stop, and return them. After ``seconds``, kill their workers."""
        until, ended = time.monotonic() + seconds, []
        while self._busy and time.monotonic() < until:
            for process in self._busy:
                process.send_signal(signal.SIGUSR1)
            wait = min(SECONDS_BETWEEN_REQUESTS, until - time.monotonic())
            if found := self.next_end(wait):
                ended.append(found)
        for process in self._busy:
            process.kill()
        while self._busy:
            if found := self.next_end(SECONDS_BETWEEN_REQUESTS):
                ended.append(found)
        return ended

    def close(self) -> None:
        """End all workers. Those that train write a checkpoint, for which this does not wait."""
        for process in self._idle:
            process.terminate()
        for process in self._idle:
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in self._busy:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def end_in_words(exit_status: int) -> str:
    """Return how a worker ended, in words."""
    if exit_status == -signal.SIGKILL:
        return "its process was killed, as if there were too little memory"
    if exit_status < 0:
        return f"its process ended by {signal.Signals(-exit_status).name}"
    return f"its process ended with status {exit_status}: see logs/workers.log in the results"
