"""Signals that ask a job to stop, as a question that the job asks when it can."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from subtune.core.errors import SubtuneError


class StoppedError(SubtuneError):
    """Training was asked to stop. What it has done is kept."""


# Of a scheduler before the time limit or a preemption, and of the keyboard.
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[Callable[[], str | None]]:
    """Inside, these signals do not end the process. What is yielded tells the first one's name.

    A second one from the keyboard does what it does outside.
    """
    received: list[str] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number).name)
        signal.signal(signal.SIGINT, before[signal.SIGINT])

    for number in SIGNALS:
        signal.signal(number, receive)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
