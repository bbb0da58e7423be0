"""Worker processes, as `subtune.compare` sees them: `subtune.stages.worker` is their inside."""

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

from subtune.core.layout import Layout
from subtune.stages.stage import Stage

# The seconds between two requests to stop, because one that comes between two steps is not heard.
SECONDS_BETWEEN_REQUESTS = 0.5


class Ended(NamedTuple):
    """A stage that a worker no longer does.

    ``error``: the message of its failure. ``stopped``: whether it was asked to stop.
    ``exit_status``: that of a worker that ended without an answer, negative after a signal.
    """

    stage: Stage
    error: str | None = None
    stopped: bool = False
    exit_status: int | None = None


class Workers:
    """Processes that do stages side by side. They are started when they are needed.

    Workers have their own session, so that Ctrl-C reaches their caller alone. The system closes
    their pipes if the caller is killed; they then end by themselves.
    """

    def __init__(self, number: int, folder: Path, lock: int):
        """Prepare ``number`` workers in ``folder``, which hold the call's ``lock`` until they end.

        Args:
            lock: the file descriptor of a locked file.
        """
        self._number, self._folder, self._lock = number, folder, lock
        self._idle: list[subprocess.Popen] = []
        self._busy: dict[subprocess.Popen, Stage] = {}
        self._answers: SimpleQueue[tuple[subprocess.Popen, str]] = SimpleQueue()

    @property
    def running(self) -> list[Stage]:
        """The stages that are being done."""
        return [*self._busy.values()]

    @property
    def free(self) -> int:
        """The number of stages that can start now."""
        return self._number - len(self._busy)

    def start(self, stage: Stage, log: Path) -> None:
        """Give a stage to a worker."""
        process = self._idle.pop() if self._idle else self._new()
        order = {"stage": stage.to_json(), "log": str(log)}
        self._busy[process] = stage
        assert process.stdin is not None
        # If the worker has ended, the end of its answers says so.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{json.dumps(order)}\n")
            process.stdin.flush()

    def _new(self) -> subprocess.Popen:
        layout = Layout(str(self._folder))
        log = Path(layout.log("workers"))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "subtune.stages.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
                pass_fds=[self._lock],
                cwd=self._folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_CACHE": layout.hub_cache()},
            )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put((process, line))
        self._answers.put((process, ""))

    def next_end(self, seconds: float) -> Ended | None:
        """Return the next stage that ends, or None if none does within some seconds."""
        try:
            process, line = self._answers.get(timeout=max(seconds, 0))
        except Empty:
            return None
        stage = self._busy.pop(process, None)
        if line:
            self._idle.append(process)
            return Ended(stage, **json.loads(line)) if stage else None
        status = process.wait()
        if stage is None:
            self._idle = [other for other in self._idle if other is not process]
            return None
        return Ended(stage, exit_status=status)

    def stop(self, seconds: float) -> list[Ended]:
        """Ask all stages to stop, and return them; kill those that take longer than this."""
        until, ended = time.monotonic() + seconds, []
        while self._busy and time.monotonic() < until:
            self._signal(signal.SIGUSR1)
            wait = min(SECONDS_BETWEEN_REQUESTS, until - time.monotonic())
            if found := self.next_end(wait):
                ended.append(found)
        self._signal(signal.SIGKILL)
        while self._busy:
            if found := self.next_end(SECONDS_BETWEEN_REQUESTS):
                ended.append(found)
        return ended

    def _signal(self, number: signal.Signals) -> None:
        for process in self._busy:
            process.send_signal(number)

    def close(self) -> None:
        """End all workers. Those that train write a checkpoint, for which this does not wait."""
        for process in self._idle:
            process.kill()
            process.wait()
        for process in self._busy:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
