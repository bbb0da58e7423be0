"""A job's messages, and its requests to stop."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from subtune.core.jobs import message_of, stop_requests


def test_the_message_of_a_full_disk_names_the_file_that_was_written():
    full = OSError(errno.ENOSPC, "No space left on device", "here/weights", None, "results/weights")
    assert message_of(full) == "the disk is full (results/weights): free some space"
    full = OSError(errno.ENOSPC, "No space left on device", "results/scores.csv")
    assert message_of(full) == "the disk is full (results/scores.csv): free some space"


def test_an_error_that_users_cannot_fix_has_no_message():
    assert message_of(KeyError("x")) is None


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_a_signal_becomes_a_question(name):
    with stop_requests() as stopping:
        assert stopping() is None
        os.kill(os.getpid(), getattr(signal, name))
        assert stopping() == name
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_from_the_keyboard_ends_the_job():
    program = (
        "import time\nfrom subtune.core.jobs import StoppedError, stop_requests\n"
        "with stop_requests():\n    print('ready', flush=True)\n"
        "    while True: time.sleep(0.1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) != 0
