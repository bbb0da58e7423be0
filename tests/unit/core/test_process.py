"""A job's log and signals, and the machine that computes."""

import errno
import getpass
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from unittest.mock import Mock

import pytest
import torch

from subtune.core.process import (
    ensure_user_name,
    is_out_of_memory,
    log_line,
    message_for_user,
    redirect_job_output,
    stop_requests,
)


def run_program(program: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env=os.environ | variables,
    )


@pytest.mark.parametrize("names", [("results/file",), ("here/file", None, "results/file")])
def test_the_message_of_a_full_disk_names_the_file_that_was_written(names):
    full = OSError(errno.ENOSPC, "No space left on device", *names)
    assert message_for_user(full) == "the disk is full (results/file); free some space"


def test_on_a_full_disk_a_log_loses_lines_and_the_job_goes_on():
    with redirect_job_output("/dev/full"):
        log_line("lost")
        print("lost", file=sys.stderr, flush=True)
        is_done = True
    assert is_done


def test_a_job_without_space_for_its_own_files_ends_with_one_line(monkeypatch, capsys):
    full = OSError(errno.ENOSPC, "No space left on device", "/tmp/subtune-1")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", Mock(side_effect=full))
    with pytest.raises(SystemExit), redirect_job_output("own.log"):
        pass
    said = "error: the disk is full (/tmp/subtune-1); free some space (log: own.log)\n"
    assert capsys.readouterr().err == said


def test_an_error_that_users_cannot_fix_has_no_message():
    assert message_for_user(KeyError("x")) is None


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_a_signal_becomes_a_question(name):
    with stop_requests() as stopping:
        assert stopping() is None
        os.kill(os.getpid(), getattr(signal, name))
        assert stopping() == name
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_from_the_keyboard_ends_the_job():
    program = (
        "import time\nfrom subtune.core.process import StoppedError, stop_requests\n"
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


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("could not create a primitive"),
        MemoryError(),
    ],
)
def test_a_lack_of_memory_differs_from_other_errors(error):
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_message_of_torchs_allocator_is_known():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**55, dtype=torch.float32)
    assert is_out_of_memory(raised.value)


def test_an_end_runs_exit_handlers_and_frees_no_module():
    program = (
        "import atexit, sys\nfrom subtune.core.process import end_process\n"
        "class Reports:\n    def __del__(self): print('leaked')\n"
        "sys.kept = Reports()\natexit.register(print, 'handler')\n"
        "print('answer')\nend_process(3)\n"
    )
    done = run_program(program)
    assert (done.returncode, done.stdout, done.stderr) == (3, "answer\nhandler\n", "")


def test_the_age_of_a_process_counts_from_its_start():
    program = "import time; time.sleep(0.5)\nfrom subtune.core.process import process_age\n"
    began = time.monotonic()
    age = float(run_program(f"{program}print(process_age())").stdout)
    assert 0.5 <= age <= time.monotonic() - began + 0.1


def test_a_process_that_is_late_ends_with_one_line_even_while_it_imports(tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    program = (
        "import time\nfrom subtune.core.process import end_late_process\n"
        "with end_late_process(60, 'never'): print('in time', flush=True)\n"
        "with end_late_process(0.2, 'too late'):\n"
        "    try:\n        import slow\n    except BaseException:\n        pass\n"
    )
    done = run_program(program, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (1, "in time\n", "too late\n")


def test_a_user_id_without_a_name_gets_one(monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError("uid not found")))
    ensure_user_name()
    assert getpass.getuser() == str(os.getuid())
