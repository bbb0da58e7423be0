"""Limits of a container and of a machine."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subtune.core import process
from subtune.core.limits import read_cpu_quota, read_free_memory, read_process_memory


def write_files(root: Path, groups: str | None, files: dict[str, str], memory: str = "") -> Path:
    """Write the files of Linux below a directory.

    Args:
        groups: the control groups of the process; None on other systems.
        files: the contents of files of control groups.
        memory: the memory of the machine.
    """
    found = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    found |= {} if groups is None else {"proc/self/cgroup": groups}
    for name, text in (found | ({"proc/meminfo": memory} if memory else {})).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


QUOTA, PERIOD = "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"
USED, LIMIT = "memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes"
MACHINE = "MemTotal:       24105000 kB\nMemAvailable:   8000000 kB"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        (None, {}, math.inf),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        # A quota of an outer group holds for all groups within.
        ("0::/pod/one", {"pod/one/cpu.max": "max 100000", "pod/cpu.max": "200000 100000"}, 2),
        ("4:cpu,cpuacct:/docker/1\n0::/", {QUOTA: "300000", PERIOD: "100000"}, 3),
        ("1:cpu:/", {QUOTA: "-1", PERIOD: "100000"}, math.inf),
    ],
)
def test_a_quota_of_cores_is_read_from_all_control_groups_of_the_process(
    tmp_path, groups, files, cores
):
    assert read_cpu_quota(write_files(tmp_path, groups, files)) == cores


@pytest.mark.parametrize(("quota", "cores"), [(math.inf, 64), (2.5, 2), (0.5, 1)])
def test_a_quota_of_cores_is_rounded_down(monkeypatch, quota, cores):
    monkeypatch.setattr(process, "read_cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(64)}, raising=False)
    assert process.count_cores() == cores


# Memory that caches files can be freed.
CACHES = {"memory.max": "6000000000", "memory.current": "3000000000"}
CACHES |= {"memory.stat": "anon 1\ninactive_file 1000000000"}


@pytest.mark.parametrize(
    ("groups", "files", "megabytes"),
    [
        (None, {}, 8192),
        ("0::/", {"memory.max": "max"}, 8192),
        ("0::/job", {f"job/{name}": text for name, text in CACHES.items()}, 4000),
        ("4:memory:/docker/1", {LIMIT: "6000000000", USED: "5000000000"}, 1000),
        ("4:memory:/", {LIMIT: "9223372036854771712", USED: "5000000000"}, 8192),
    ],
)
def test_free_memory_is_the_least_of_the_machine_and_the_control_groups(
    tmp_path, groups, files, megabytes
):
    assert read_free_memory(write_files(tmp_path, groups, files, MACHINE)) == megabytes * 1e6


def test_free_memory_is_not_limited_where_no_limit_is_known(tmp_path):
    assert read_free_memory(tmp_path) == math.inf


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux")
def test_the_memory_of_a_process_includes_what_it_allocated():
    # In a new process, because this one may use memory again that other tests have freed.
    wait = "print(flush=True); input()"
    allocate = "block = numpy.ones(100_000_000, numpy.uint8)"
    code = f"import numpy; {wait}; {allocate}; {wait}; del block; {wait}"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        measured = []
        for _ in range(3):
            process.stdout.readline()
            measured.append(read_process_memory(process.pid))
            process.stdin.write("\n")
            process.stdin.flush()
    (before, _), (now, peak), (after, still) = measured
    assert peak >= now >= before + 0.9e8
    assert still >= before + 0.9e8 > after
    assert read_process_memory(2**31) == (0, 0)
