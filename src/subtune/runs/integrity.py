"""Files of run records that are what was recorded: checksums, and what to do where they differ."""

import json
from collections.abc import Mapping
from pathlib import Path

from subtune.core.content_ids import checksum
from subtune.core.errors import SubtuneError

CHECKSUMS = "checksums.json"


def write_checksums(folder: Path) -> None:
    """Write the last file of a record: the checksum of every other file."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS]
    sums = {path.name: checksum(path.read_bytes()) for path in paths}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n")


def read_bytes(store: Path, run: str, name: str) -> bytes:
    """Return the content of a record's file.

    Raises:
        SubtuneError: the file is missing, cannot be read, or is not what was recorded.
    """
    return _checked(store / run / name, read_checksums(store, run))


def read_checksums(store: Path, run: str) -> dict[str, str]:
    """Return the checksum of each file of a record.

    Raises:
        SubtuneError: there is no such record, or its checksums cannot be read.
    """
    path = store / run / CHECKSUMS
    if not path.parent.exists():
        raise SubtuneError(f"{path.parent} is missing; {how_to_repair(store)}")
    try:
        sums = json.loads(_checked(path, {}))
    except (ValueError, RecursionError):
        sums = None
    if not isinstance(sums, dict) or not sums:
        raise SubtuneError(f"{path} is not readable JSON; {how_to_repair(store)}")
    return sums


def damaged_files(store: Path, run: str) -> list[str]:
    """Return a line for each file of a record that is not what was recorded."""
    problems = []
    try:
        sums = read_checksums(store, run)
    except SubtuneError as error:
        return [str(error)]
    for name in sorted(sums):
        try:
            _checked(store / run / name, sums)
        except SubtuneError as error:
            problems.append(str(error))
    return problems


def how_to_repair(store: Path) -> str:
    """Return the end of a message about a damaged record."""
    return (
        f"`subtune verify --results {store.parent} --repair` sets damaged records aside, and the "
        "next call of snakemake trains those runs again"
    )


def _checked(path: Path, sums: Mapping[str, str]) -> bytes:
    store = path.parent.parent
    if path.exists() and not path.is_file():
        raise SubtuneError(f"{path} is not a file; {how_to_repair(store)}")
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise SubtuneError(f"{path} is missing; {how_to_repair(store)}") from None
    except OSError as error:
        raise SubtuneError(f"{path} cannot be read: {error.strerror}") from None
    if path.name in sums and sums[path.name] != checksum(content):
        raise SubtuneError(f"{path} is not what was recorded; {how_to_repair(store)}")
    return content
