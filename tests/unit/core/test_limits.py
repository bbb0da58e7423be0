"""Limits of a container and of a machine."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subtune.core import process
from subtune.core.limits import read_cpu_quota, read_free_memory, read_process_memory


def write_files(root: Path, **files: str) -> Path:
    """Write files below a directory, which stands for the root of a file system of Linux."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


CGROUP, MEMINFO = "proc/self/cgroup", "proc/meminfo"
MACHINE = "MemTotal:       24105000 kB\nMemAvailable:   8000000 kB"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, math.inf),
        ({CGROUP: "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, math.inf),
        ({CGROUP: "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        # A quota of an outer group holds for all groups within.
        (
            {
                CGROUP: "0::/pod/one",
                "sys/fs/cgroup/pod/one/cpu.max": "max 100000",
                "sys/fs/cgroup/pod/cpu.max": "200000 100000",
            },
            2,
        ),
        (
            {
                CGROUP: "4:cpu,cpuacct:/docker/1\n0::/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (
            {
                CGROUP: "1:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            math.inf,
        ),
    ],
)
def test_a_quota_of_cores_is_read_from_all_control_groups_of_the_process(tmp_path, files, cores):
    assert read_cpu_quota(write_files(tmp_path, **files)) == cores


@pytest.mark.parametrize(("quota", "cores"), [(math.inf, 64), (2.5, 2), (0.5, 1)])
def test_a_quota_of_cores_is_rounded_down(monkeypatch, quota, cores):
    monkeypatch.setattr(process, "read_cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(64)}, raising=False)
    assert process.count_cores() == cores


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        ({}, math.inf),
        ({MEMINFO: MACHINE}, 8000000 * 1024 / 1e6),
        ({MEMINFO: MACHINE, CGROUP: "0::/", "sys/fs/cgroup/memory.max": "max"}, 8192),
        # Memory that caches files can be freed.
        (
            {
                MEMINFO: MACHINE,
                CGROUP: "0::/job",
                "sys/fs/cgroup/job/memory.max": "6000000000",
                "sys/fs/cgroup/job/memory.current": "3000000000",
                "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 1000000000",
            },
            4000,
        ),
        (
            {
                MEMINFO: MACHINE,
                CGROUP: "4:memory:/docker/1",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "6000000000",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "5000000000",
            },
            1000,
        ),
        (
            {
                MEMINFO: MACHINE,
                CGROUP: "4:memory:/",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "5000000000",
            },
            8192,
        ),
    ],
)
def test_free_memory_is_the_least_of_the_machine_and_the_control_groups(tmp_path, files, megabytes):
    assert read_free_memory(write_files(tmp_path, **files)) == megabytes * 1e6


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
