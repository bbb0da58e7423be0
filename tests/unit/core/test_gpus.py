"""GPUs of a machine, each of which one process holds. Names stand in for GPUs."""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from unittest.mock import Mock

import pytest

from subtune.core import gpus
from subtune.core.gpus import hold_gpu, reserve_gpu
from subtune.core.process import StoppedError
from tests.helpers.messages import refused

# Holds one of the GPUs that are named, says which, and ends with its standard input.
HOLDER = """
import sys
from subtune.core.gpus import reserve_gpu
with reserve_gpu(sys.argv[1:], lambda number: None, lambda line: None) as number:
    print(number, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gpus, "WAIT", 0.01)


@pytest.fixture
def start():
    """A function that starts a process which holds one of some GPUs."""
    started = []

    def start(names):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", HOLDER, *names], **pipes))
        return started[-1]

    yield start
    for process in started:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@pytest.fixture
def other(start):
    """Another process that holds the GPU."""
    process = start(["GPU-a"])
    assert process.stdout.readline() == "0\n"
    return process


def held(names, use=lambda number: None, report=lambda line: None) -> int:
    with reserve_gpu(names, use, report) as number:
        return number


def test_eight_processes_hold_eight_gpus(start):
    names = [f"GPU-{number}" for number in range(8)]
    processes = [start(names) for _ in names]
    assert sorted(int(process.stdout.readline()) for process in processes) == [*range(8)]


def test_a_gpu_that_is_in_use_is_waited_for(other):
    lines = []

    def report(line):
        lines.append(line)
        other.stdin.close()

    assert held(["GPU-a"], report=report) == 0
    assert lines == ["waiting for a free GPU: all 1 GPU(s) are in use by other jobs"]


def test_a_process_that_is_killed_frees_its_gpu(other):
    other.kill()
    began = time.monotonic()
    assert held(["GPU-a"]) == 0
    assert time.monotonic() - began < 10


def test_a_gpu_that_fails_is_left_for_another_one():
    lines = []

    def use(number):
        if number == 0:
            raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nmore")

    assert held(["GPU-a", "GPU-b"], use, lines.append) == 1
    assert lines == [
        "GPU GPU-a: CUDA error: all CUDA-capable devices are busy or unavailable; trying "
        "another one"
    ]


def test_without_any_gpu_that_works_a_job_ends_in_one_line():
    with refused("GPU GPU-a: ", "unusable"):
        held(["GPU-a"], Mock(side_effect=RuntimeError("CUDA error")))


def test_a_wait_ends_when_the_job_is_asked_to_stop(other):
    stop, ignore = Mock(side_effect=StoppedError("stopped")), lambda _: None
    with pytest.raises(StoppedError), reserve_gpu(["GPU-a"], ignore, ignore, stop):
        pass


def test_a_folder_without_locks_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(37, "No locks available")))
    with refused(f"TMPDIR: {tmp_path}/subtune-gpus: ", "No locks available"):
        held(["GPU-a"])


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "subtune-gpus").write_text("a file")
    with refused(f"TMPDIR: {tmp_path}/subtune-gpus: ", "File exists"):
        held(["GPU-a"])


def test_other_users_can_lock_a_gpu_whatever_the_umask_of_the_first_is(tmp_path):
    before = os.umask(0o077)
    try:
        assert held(["GPU-a"]) == 0
    finally:
        os.umask(before)
    folder = tmp_path / "subtune-gpus"
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert (folder / "GPU-a").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["subtune-gpus", "subtune-gpus/GPU-a"])
@pytest.mark.fault(
    "files",
    "another user's umask, or a link in place of GPU locks",
    "locks work for all; the link is rejected",
)
def test_a_link_to_files_of_another_user_is_refused_and_changes_nothing(tmp_path, name):
    """Another user may have placed the link in the shared directory."""
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(own if name == "subtune-gpus" else own / "new")
    with refused("TMPDIR: ", "cannot lock files there"):
        held(["GPU-a"])
    assert own.stat().st_mode & 0o7777 == 0o700 and not [*own.iterdir()]


def test_without_gpus_nothing_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "count_gpus", lambda: 0)
    with hold_gpu(print):
        assert not [*tmp_path.iterdir()]
