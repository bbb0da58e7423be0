"""Locks that give each job a GPU of its own.

The operating system releases a lock when its process ends, even if the process is killed.
"""

import fcntl
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from subtune.core.errors import SubtuneError

# Seconds between two attempts to find a free GPU.
WAIT = 0.5
# The environment variable with the id of a Slurm job. Slurm itself assigns GPUs to its jobs.
SLURM = "SLURM_JOB_ID"


def count_gpus() -> int:
    """Return the number of GPUs that this process may use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@contextmanager
def hold_gpu(
    report: Callable[[str], object], check: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Wait for a free GPU, and make it PyTorch's current device. Without GPUs, do nothing.

    Under Slurm, processes wait only for other processes of the same Slurm job, because Slurm may
    let different jobs share a GPU. For arguments and errors, see `reserve_gpu`.
    """
    import torch

    number = count_gpus()
    if not number:
        yield
        return
    # Unlike its index, the UUID of a GPU or MIG slice does not depend on CUDA_VISIBLE_DEVICES.
    names = [str(torch.cuda.get_device_properties(n).uuid) for n in range(number)]
    if SLURM in os.environ:
        names = [f"{name}-in-job-{os.environ[SLURM]}" for name in names]
    with reserve_gpu(names, torch.cuda.set_device, report, check):
        try:
            yield
        finally:
            gc.collect()
            torch.cuda.empty_cache()


@contextmanager
def reserve_gpu(
    names: Sequence[str],
    use: Callable[[int], object],
    report: Callable[[str], object],
    check: Callable[[], object] = lambda: None,
) -> Iterator[int]:
    """Wait for a free GPU, reserve it until the end of the block, and yield its index in ``names``.

    Args:
        use: starts to use the GPU with the given index. After a `RuntimeError`, the next GPU is
            tried.
        report: is called with log lines about GPUs that are in use or fail.
        check: is called repeatedly while waiting, and may raise an error.

    Raises:
        SubtuneError: no GPU works, or files cannot be locked in the directory for temporary files.
    """
    working, is_waiting = dict(enumerate(names)), False
    while working:
        for number, name in [*working.items()]:
            with ExitStack() as held:
                if not _try_lock_gpu(name, held):
                    continue
                try:
                    use(number)
                except RuntimeError as error:
                    report(f"GPU {name}: {str(error).splitlines()[0]}; trying another one")
                    del working[number]
                    continue
                yield number
                return
        if working and not is_waiting:
            report(f"waiting for a free GPU: all {len(working)} GPU(s) are in use by other jobs")
            is_waiting = True
        check()
        time.sleep(WAIT)
    raise SubtuneError(
        f"GPU {', '.join(names)}: unusable; set CUDA_VISIBLE_DEVICES='' to use the CPU"
    )


def _try_lock_gpu(name: str, held: ExitStack) -> bool:
    """Lock a GPU's file until ``held`` is closed. Return False if another process has the lock."""
    # All users of the machine share its GPUs, and therefore this directory. Symbolic links are
    # rejected, because a user could create one to change the files of another user.
    folder = Path(tempfile.gettempdir()) / "subtune-gpus"
    try:
        folder.mkdir(exist_ok=True)
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        held.callback(os.close, place)
        # The umask does not restrict these modes.
        if os.fstat(place).st_uid == os.getuid():
            os.fchmod(place, 0o1777)
        with suppress(FileExistsError):
            new = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=place)
            os.fchmod(new, 0o644)
            os.close(new)
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place)
        file = held.enter_context(os.fdopen(number))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise SubtuneError(
            f"TMPDIR: {folder}: cannot lock files there ({error.strerror}); set TMPDIR to a "
            "directory on a local disk"
        ) from None
    return True
