"""Start and stop a Slurm cluster of one node for tests.

To use it by hand, call ``python -m tests.helpers.cluster start`` or ``stop``. Slurm reads its
configuration from /etc/slurm, so a machine can have only one such cluster. A cluster that these
tests did not start is left unchanged.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

ETC = Path("/etc/slurm")
PLACE = Path("/var/tmp/subtune-slurm")
OURS = "# Written by subtune's tests; may be deleted.\n"
GPUS = 2
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "mungekey")
# Short timeouts, so that Slurm detects a lost node within seconds.
CONFIGURATION = """\
ClusterName=subtune
SlurmctldHost={host}
SlurmctldAddr=127.0.0.1
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
GresTypes=gpu
MinJobAge=300
SlurmdTimeout=10
KillWait=10
EnforcePartLimits=ALL
JobRequeue=1
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=lab Nodes=ALL AllowAccounts=lab State=UP
"""


def why_not() -> str | None:
    """Return the reason why a cluster cannot be started here, or None."""
    missing = [program for program in PROGRAMS if _path_of(program) is None]
    if missing:
        return f"no {', '.join(missing)} on this machine: install slurm-wlm and munge"
    if os.geteuid() != 0:
        return "starting a Slurm cluster takes root"
    configuration = ETC / "slurm.conf"
    if configuration.exists() and not configuration.read_text().startswith(OURS):
        return f"{configuration} belongs to another cluster"
    return None


def start() -> None:
    """Start a cluster and wait for its node."""
    stop()
    for folder in ("state", "spool"):
        (PLACE / folder).mkdir(parents=True)
    for number in range(GPUS):
        # Slurm needs a device file for each GPU. These are copies of /dev/null (major 1, minor 3).
        os.mknod(PLACE / f"gpu{number}", 0o600 | 0o020000, os.makedev(1, 3))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    ETC.mkdir(exist_ok=True)
    (ETC / "gres.conf").write_text(f"{OURS}Name=gpu File={PLACE}/gpu[0-{GPUS - 1}]\n")
    (ETC / "slurm.conf").write_text(
        OURS
        + CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            place=PLACE,
            cpus=os.cpu_count(),
            memory=memory * 9 // 10,
            gpus=GPUS,
        )
    )
    _start_munge()
    _run("slurmctld")
    start_node()


def start_node() -> None:
    """Start slurmd, and wait until the node accepts jobs."""
    _run("slurmd")
    wait_for(_node_is_up, "the node")


def lose_node() -> None:
    """Kill slurmd and all jobs of the node, as in a power failure."""
    _kill_trees(_named("slurmd") + _named("slurmstepd"))


def cancel_all() -> None:
    """Cancel all jobs, and wait until the queue is empty."""
    subprocess.run(["scancel", "--user", "root"], check=True)
    wait_for(lambda: not ask("squeue", "-h"), "jobs to end")


def stop() -> None:
    """Kill the cluster and remove its files."""
    lose_node()
    _kill_trees(_named("slurmctld"))
    shutil.rmtree(PLACE, ignore_errors=True)
    for name in ("slurm.conf", "gres.conf"):
        (ETC / name).unlink(missing_ok=True)


def ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wait_for(condition, what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.2)


def _node_is_up() -> bool:
    return ask("sinfo", "-h", "-o", "%T").strip() in ("idle", "mixed", "allocated")


def _start_munge() -> None:
    if subprocess.run(["munge", "-n"], capture_output=True).returncode == 0:
        return
    if not Path("/etc/munge/munge.key").exists():
        _run("mungekey")
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", _path_of("munged")], check=True)
    wait_for(lambda: subprocess.run(["munge", "-n"], capture_output=True).returncode == 0, "munge")


def _path_of(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _run(program: str) -> None:
    subprocess.run([str(_path_of(program))], check=True, stdin=subprocess.DEVNULL)


def _named(name: str) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["name"]) if one.info["name"] == name]


def _kill_trees(processes: list[psutil.Process]) -> None:
    """Kill processes and their descendants, and wait until they have ended.

    A process that is writing to the disk ends after the write.
    """
    found = processes + [child for one in processes for child in one.children(recursive=True)]
    for one in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    wait_for(lambda: not any(map(_runs, found)), "processes to end")


def _runs(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]]()
