"""Signals that ask a job to stop. The job asks for them when it can stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from subtune.core.errors import SubtuneError


class StoppedError(SubtuneError):
    """Training was asked to stop. Its work is kept."""


# Sent by a scheduler before the time limit or a preemption, and by the keyboard.
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[Callable[[], str | None]]:
    """Yield a function that returns the name of the first signal that came, or None.

    Inside, `SIGNALS` do not end the process, except for a second one from the keyboard.
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
