"""Checks of a zip file before it is sent to the GLUE server."""

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.glue_server.server import FILES, HEADER, ServerFile

UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError)


def check(path: Path) -> None:
    """Check a submission before it is sent.

    Raises:
        SubtuneError: a line per problem: the file in the zip, the line, what was expected.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            problems = list(_problems(archive))
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SubtuneError(f"{path}: {reason}, expected a zip file") from None
    except zipfile.BadZipFile:
        raise SubtuneError(f"{path} is not a zip file, or it was cut off") from None
    if problems:
        raise SubtuneError("\n".join(f"{path}: {problem}" for problem in problems))


def _problems(archive: zipfile.ZipFile) -> Iterator[str]:
    names = Counter(entry.filename for entry in archive.infolist() if not entry.is_dir())
    for name, count in names.items():
        inner = name.rpartition("/")[2]
        if name not in FILES and inner in FILES:
            yield f"{name}: expected {inner} at the top of the zip, not in a directory"
        elif name not in FILES:
            yield f"{name}: {one_of(inner, FILES)}"
        elif count > 1:
            yield f"{name}: found {count} times, expected once"
        elif problem := _problem_of_file(archive, FILES[name]):
            yield f"{name}: {problem}"
    yield from (f"{name}: missing, and needed" for name in FILES if name not in names)


def _problem_of_file(archive: zipfile.ZipFile, file: ServerFile) -> str | None:
    try:
        text = archive.read(file.name).decode("utf-8")
    except UNREADABLE:
        return "damaged in the zip file, or encrypted: it cannot be unpacked"
    except UnicodeDecodeError:
        return "found bytes that are not UTF-8"
    header, *rows = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    expected = "\t".join(HEADER)
    if header != expected:
        return f"line 1: found {header[:60]!r}, expected the header {expected!r}"
    for number, row in enumerate(rows[: file.rows]):
        if problem := _problem_of_row(row, number, file):
            return f"line {number + 2}: {problem}"
    if len(rows) != file.rows:
        return f"found {len(rows):,} rows, expected {file.rows:,}"
    return None


def _problem_of_row(row: str, number: int, file: ServerFile) -> str | None:
    cells = row.split("\t")
    if len(cells) != len(HEADER):
        return f"found {row[:60]!r}, expected an index, a tab and a prediction"
    index, prediction = cells
    if index != str(number):
        return f"found index {index[:20]!r}, expected {number}"
    if file.labels:
        known = prediction in file.labels
        return None if known else f"prediction: {one_of(prediction, file.labels)}"
    low, high = file.score_range or (-math.inf, math.inf)
    try:
        in_range = low <= float(prediction) <= high
    except ValueError:
        in_range = False
    expected = f"expected a number from {low:g} to {high:g}"
    return None if in_range else f"prediction: found {prediction!r}, {expected}"
