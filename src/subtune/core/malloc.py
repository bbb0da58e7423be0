"""Memory that a training step frees is what the next step needs again."""

import ctypes
import sys

# glibc's <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Stop glibc from giving freed memory back to the system after every training step.

    Faulting the same pages in again takes up to a quarter of a small model's step. Returns whether
    it could be done: elsewhere than on glibc nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
