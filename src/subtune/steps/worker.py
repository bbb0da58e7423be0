"""A worker of `subtune.compare`: does one job after another, and ends with its caller.

A line of standard input is JSON: a job, and the path of its log. The answer is a line of JSON:
``error`` is the message of a failure or null, and ``stopped`` says whether the job was asked to
stop. SIGUSR1 asks a job to stop. After SIGTERM, or if the caller is gone, the worker ends too. In
each of these cases, a job that trains first writes a checkpoint.
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

from subtune.core.process import StoppedError, job_log, report, user_message
from subtune.steps.jobs import Job


def main() -> None:
    """Do the jobs of standard input."""
    # Libraries may print; only answers go to the caller.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    ends: list[int] = []

    def end(number: int, *_: Any) -> None:
        ends.append(number)
        orders.put(None)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    # Libraries read the places of their caches when they are imported.
    with tempfile.TemporaryDirectory(prefix="subtune-") as private:
        os.environ["HF_DATASETS_CACHE"] = private
        if "HF_HUB_OFFLINE" in os.environ:
            os.environ["HF_HOME"] = private
        # What takes seconds is imported while no job has come.
        for library in ("subtune.training.recorded_runs", "sklearn.linear_model"):
            import_module(library)
        while order := orders.get():
            answer = _answer(Job(**order["job"]), Path(order["log"]))
            if ends:
                break
            with contextlib.suppress(BrokenPipeError):
                os.write(answers, f"{json.dumps(answer)}\n".encode())
    # The caller sees from the signal why the worker ended.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def _read(orders: SimpleQueue[dict[str, Any] | None]) -> None:
    """Pass on the lines of standard input. At its end, the caller is gone."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os.kill(os.getpid(), signal.SIGTERM)


def _answer(job: Job, log: Path) -> dict[str, Any]:
    """Do a job, and return the answer."""
    from subtune.steps.jobs import run_job

    log.parent.mkdir(parents=True, exist_ok=True)
    with job_log(log, job.resources.get("hub_cache")):
        try:
            run_job(job)
        except StoppedError as error:
            report(str(error))
            return {"error": None, "stopped": True}
        except Exception as error:
            message = user_message(error)
            if message is None:
                traceback.print_exc()
                message = f"{type(error).__name__}: {error} (log: {log})"
            report(f"error: {message}")
            return {"error": message, "stopped": False}
    return {"error": None, "stopped": False}


if __name__ == "__main__":
    main()
