"""The GPUs of this machine. Each job that computes holds one, so that no two jobs share one.

A job holds a GPU by the lock of a file with the GPU's name. The system removes the lock when the
process ends, even if it is killed.
"""

import fcntl
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from subtune.core.errors import SubtuneError

# Seconds between two looks for a free GPU.
WAIT = 0.5
# The number of a job of Slurm, which gives each of its jobs GPUs of its own.
SLURM = "SLURM_JOB_ID"


def count_gpus() -> int:
    """Return the number of GPUs that this process may use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@contextmanager
def hold_gpu(
    report: Callable[[str], object], check: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Wait for a free GPU, and compute on it in this block. Without GPUs, nothing happens.

    In Slurm, processes of one job wait for each other. Jobs do not, as they may share a GPU.

    Args:
        report: a function that gets lines about GPUs that are in use or fail.
        check: a function that is called while this waits, and may raise an error.

    Raises:
        SubtuneError: no GPU works, or the folder for temporary files has no locks.
    """
    import torch

    number = count_gpus()
    if not number:
        yield
        return
    # The GPU's own name or that of its MIG part, whatever CUDA_VISIBLE_DEVICES calls it.
    names = [str(torch.cuda.get_device_properties(n).uuid) for n in range(number)]
    if SLURM in os.environ:
        names = [f"{name}-in-job-{os.environ[SLURM]}" for name in names]
    with hold_one(names, torch.cuda.set_device, report, check):
        try:
            yield
        finally:
            gc.collect()
            torch.cuda.empty_cache()


@contextmanager
def hold_one(
    names: Sequence[str],
    use: Callable[[int], object],
    report: Callable[[str], object],
    check: Callable[[], object] = lambda: None,
) -> Iterator[int]:
    """Wait for a free GPU, and hold it in this block.

    Args:
        names: the names of the GPUs.
        use: a function that begins to compute on the GPU with a number; if it fails, another GPU is
            tried.
        report: a function that gets lines about GPUs that are in use or fail.
        check: a function that is called while this waits, and may raise an error.

    Yields:
        The GPU's number among ``names``.
    """
    working, is_waiting = dict(enumerate(names)), False
    while working:
        for number, name in [*working.items()]:
            with ExitStack() as held:
                if not _lock(name, held):
                    continue
                try:
                    use(number)
                except RuntimeError as error:
                    report(f"GPU {name}: {str(error).splitlines()[0]}; another one is tried")
                    del working[number]
                    continue
                yield number
                return
        if working and not is_waiting:
            report(f"waiting for a free GPU: all {len(working)} are in use by jobs of subtune")
            is_waiting = True
        check()
        time.sleep(WAIT)
    raise SubtuneError(f"GPU {', '.join(names)}: none works; CUDA_VISIBLE_DEVICES= uses the CPU")


def _lock(name: str, held: ExitStack) -> bool:
    """Lock a GPU's file until ``held`` is closed. Return False if another process has locked it."""
    # Users of one machine share its GPUs, and therefore this folder.
    folder = Path(tempfile.gettempdir()) / "subtune-gpus"
    folder.mkdir(exist_ok=True)
    if folder.stat().st_uid == os.getuid():
        folder.chmod(0o1777)
    try:
        try:
            number = os.open(folder / name, os.O_RDONLY)
        except FileNotFoundError:
            # In a shared folder, Linux may refuse to create what another user has created.
            number = os.open(folder / name, os.O_RDONLY | os.O_CREAT, 0o644)
        file = held.enter_context(os.fdopen(number))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise SubtuneError(
            f"TMPDIR: {folder}: files cannot be locked there ({error.strerror}); set TMPDIR to a "
            "folder on this machine's own disk"
        ) from None
    return True
