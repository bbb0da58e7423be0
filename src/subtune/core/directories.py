"""Directories that are written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from safetensors import SafetensorError

from subtune.core.errors import SubtuneError, reason_of


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a hidden directory to write into. It gets the name ``target`` once it is on the disk.

    After an error it is removed.

    Raises:
        SubtuneError: ``target`` is there already, the disk is full, or the place cannot be written.
    """
    require_new(target)
    # A process on another node may have the same number.
    draft = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        yield draft
        for path in draft.rglob("*"):
            flush(path)
        flush(draft)
        draft.rename(target)
        flush(target.parent)
    except (OSError, SafetensorError) as error:
        raise SubtuneError(f"cannot write {target}: {reason_of(error)}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def require_new(target: Path) -> None:
    """Raise a `SubtuneError` if something has this name."""
    if target.exists():
        raise SubtuneError(f"{target} is there already; move it away or name a new directory")


def flush(path: Path) -> None:
    """Wait until a file's content, or a directory's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
