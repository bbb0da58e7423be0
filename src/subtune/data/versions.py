"""Hashes of the files that hold a task's rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from subtune.core.content_ids import fingerprint
from subtune.core.errors import SubtuneError
from subtune.selections.specs import DataSpec

# An error message names each of at most so many files.
NAMED_FILES = 3


def version_of(paths: Mapping[str, Sequence[Path]]) -> str:
    """Return the hash of the content of some splits' files.

    Raises:
        SubtuneError: a file cannot be read.
    """
    files = [path for split in sorted(paths) for path in paths[split]]
    try:
        return fingerprint(*files)
    except OSError as error:
        name, reason = error.filename or _named(files), error.strerror or "cannot be read"
        raise SubtuneError(f"{name}: {reason.lower()}, expected a file to read") from None


def require_version(spec: DataSpec, paths: Mapping[str, Sequence[Path]]) -> None:
    """Refuse rows whose files have changed since the plan. Ask this after they were read.

    Raises:
        SubtuneError: a file has another content, or is gone.
    """
    try:
        same = not paths or version_of(paths) == spec.version
    except SubtuneError:
        same = False
    if not same:
        names = _named([path for files in paths.values() for path in files])
        raise SubtuneError(f"{names}: changed since this was planned; call snakemake again")


def _named(paths: Sequence[Path]) -> str:
    if len(paths) <= NAMED_FILES:
        return ", ".join(map(str, paths))
    return f"{paths[0]} or one of {len(paths) - 1:,} others"
