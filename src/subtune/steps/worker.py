"""A worker process of `subtune.compare`, which runs one job after another until its caller exits.

Each line of standard input is a JSON object with a job and the path of its log. The worker answers
with a line of JSON, in which ``error`` is a message, or null if the job has ended or stopped.
SIGUSR1 stops a job. The worker also exits on SIGTERM, or when its caller exits. A job that trains
writes a checkpoint before it stops.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from subtune.core.process import (
    StoppedError,
    log_line,
    message_for_user,
    redirect_job_output,
    set_hub_cache,
)
from subtune.steps.jobs import Job, run_job


def main() -> None:
    """Run the jobs that arrive on standard input."""
    # Libraries may print to standard output, which is reserved for answers.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    ends: list[int] = []

    def end(number: int, *_: Any) -> None:
        ends.append(number)
        orders.put(None)

    # While libraries are imported, there is no job to finish.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGUSR1, lambda *_: None)
    threading.Thread(target=_read_requests, args=(orders,), daemon=True).start()
    # Libraries read the paths of their caches when they are imported.
    with contextlib.suppress(SystemExit), tempfile.TemporaryDirectory(prefix="subtune-") as private:
        os.environ["HF_DATASETS_CACHE"] = private
        if "HF_HUB_OFFLINE" in os.environ:
            os.environ["HF_HOME"] = private
        # These imports take seconds. They run before the first job arrives.
        for library in ("subtune.training.recorded_runs", "sklearn.linear_model"):
            import_module(library)
        signal.signal(signal.SIGTERM, end)
        while order := orders.get():
            answer = _run_requested_job(Job(**order["job"]), Path(order["log"]))
            if ends:
                break
            with contextlib.suppress(BrokenPipeError):
                os.write(answers, f"{json.dumps(answer)}\n".encode())
    # The signal tells the caller why the worker ended.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def _read_requests(orders: SimpleQueue[dict[str, Any] | None]) -> None:
    """Put the lines of standard input into a queue. The input ends when the caller exits."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os.kill(os.getpid(), signal.SIGTERM)


def _run_requested_job(job: Job, log: Path) -> dict[str, Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with redirect_job_output(log):
        set_hub_cache(job.resources.get("hub_cache"))
        try:
            run_job(job)
        except StoppedError as error:
            log_line(str(error))
        except Exception as error:
            message = message_for_user(error)
            if message is None:
                traceback.print_exc()
                message = f"{type(error).__name__}: {error} (log: {log})"
            log_line(f"error: {message}")
            return {"error": message}
    return {"error": None}


if __name__ == "__main__":
    main()
