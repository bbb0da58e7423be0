"""The processes that do the jobs of a comparison, and the memory that they need."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subtune.comparison import workers
from subtune.comparison.workers import MemoryGauge, Workers
from subtune.core import limits
from subtune.steps.jobs import Job

JOB = Job("train", "a", {}, {}, {}, {"mem_mb": 4000, "memory_kind": "minilm train"})


@pytest.fixture
def gauge(monkeypatch):
    """A gauge of a machine with 6 GB of free memory."""
    monkeypatch.setattr(workers, "read_free_memory", lambda: 6e9)
    return MemoryGauge()


@pytest.fixture
def busy():
    """The id of a process that uses 500 MB."""
    program = "block = bytearray(500_000_000)\nprint(flush=True)\nimport time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_one_job_always_runs(monkeypatch):
    monkeypatch.setattr(workers, "read_free_memory", lambda: 1)
    assert MemoryGauge().find_lack(JOB, {}, [os.getpid()]) is None


def test_before_a_job_is_measured_the_estimate_counts(gauge, busy):
    lack = gauge.find_lack(JOB, {busy: JOB}, [])
    assert lack.startswith("memory: a job uses up to 4.0 GB, and all jobs together may use 5.2 GB")
    assert lack.endswith("so other jobs wait until one of 1 ends")


@pytest.mark.skipif(sys.platform != "linux", reason="memory of processes is read on Linux")
def test_after_a_job_is_measured_more_jobs_start(gauge, busy):
    for _ in range(2):
        gauge.measure(busy, JOB)
    # It may still grow.
    assert gauge.find_lack(JOB, {busy: JOB}, [])
    gauge.measure(busy, JOB, has_ended=True)
    # 5.2 GB hold ten jobs of 0.51 GB.
    assert gauge.find_lack(JOB, {busy: JOB} | dict.fromkeys(range(-8, 0), JOB), []) is None
    assert gauge.find_lack(JOB, {busy: JOB} | dict.fromkeys(range(-11, 0), JOB), [])
    # Jobs of another kind are not measured yet.
    other = JOB._replace(resources={"mem_mb": 5000, "memory_kind": "bert train"})
    assert gauge.find_lack(other, {busy: JOB}, [])


def test_the_limit_of_an_address_space_counts(monkeypatch, busy):
    monkeypatch.setattr(workers, "read_address_limit", lambda: 6e9)
    assert MemoryGauge().find_lack(JOB, {busy: JOB}, [])
    monkeypatch.setattr(workers, "read_address_limit", lambda: 1e12)
    monkeypatch.setattr(workers, "read_free_memory", lambda: 1e12)
    assert MemoryGauge().find_lack(JOB, {busy: JOB}, []) is None


def test_where_memory_is_unknown_it_limits_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "read_free_memory", lambda: limits.read_free_memory(tmp_path))
    assert MemoryGauge().find_lack(JOB, {os.getpid(): JOB}, []) is None


@pytest.mark.skipif(sys.platform != "linux", reason="directories of processes are read on Linux")
def test_a_worker_runs_in_the_callers_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "lock").open("w") as lock:
        started = Workers(tmp_path / "results", lock.fileno())
        directories = [Path(f"/proc/{process.pid}/cwd").resolve() for process in started._idle]
        started.close()
    assert directories == [tmp_path]


def test_a_worker_that_still_imports_ends_when_it_is_asked_and_leaves_no_files(
    tmp_path, monkeypatch
):
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setenv("TMPDIR", str(private))
    with (tmp_path / "lock").open("w") as lock:
        started = Workers(tmp_path, lock.fileno())
        [process] = started._idle
        until = time.monotonic() + 60
        while not [*private.iterdir()]:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        started.close()
    # A worker that does not end in time is killed.
    assert process.returncode == -signal.SIGTERM
    assert not [*private.iterdir()]
