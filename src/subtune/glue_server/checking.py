"""Whether a zip file is what the GLUE server takes."""

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.glue_server.server import FILES, HEADER, ServerFile

# Far above the largest that is right, some 5 MB of QQP.
LARGEST = 100_000_000


def check(path: Path) -> None:
    """Check a submission before it is sent.

    Raises:
        SubtuneError: one line per problem: the file in the zip, the line, what was expected.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            problems = list(_problems(archive))
    except FileNotFoundError:
        raise SubtuneError(f"found no file {str(path)!r}") from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SubtuneError(f"{path}: {reason}, expected a zip file") from None
    except zipfile.BadZipFile:
        raise SubtuneError(f"{path} is not a zip file, or one that was cut off") from None
    if problems:
        raise SubtuneError("\n".join(f"{path}: {problem}" for problem in problems))


def _problems(archive: zipfile.ZipFile) -> Iterator[str]:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    names = Counter(entry.filename for entry in entries)
    for name, count in names.items():
        if name not in FILES:
            inner = name.rpartition("/")[2]
            if inner in FILES:
                yield f"{name}: expected {inner} at the top of the zip, not in a directory"
            else:
                yield f"{name}: {one_of(inner, FILES)}"
        elif count > 1:
            yield f"{name}: found {count} times, expected once"
    for name in FILES:
        if name not in names:
            yield f"{name}: missing, and needed"
    for entry in entries:
        if entry.filename in FILES and names[entry.filename] == 1:
            problem = _problem_of_file(archive, entry, FILES[entry.filename])
            if problem:
                yield f"{entry.filename}: {problem}"


def _problem_of_file(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, file: ServerFile
) -> str | None:
    if entry.flag_bits & 1:
        return "encrypted, expected plain text"
    if entry.file_size > LARGEST:
        return f"{entry.file_size:,} bytes, expected at most {LARGEST:,}"
    try:
        content = archive.read(entry)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError):
        return "damaged in the zip file: it cannot be unpacked"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return "found bytes that are not UTF-8"
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return _problem_of_header(lines[0]) or _first_problem(lines[1:], file)


def _problem_of_header(line: str) -> str | None:
    if line.split("\t") == list(HEADER):
        return None
    if line.startswith("\ufeff"):
        return "line 1: found a byte-order mark, expected none"
    return f"line 1: found {line[:60]!r}, expected the header {chr(9).join(HEADER)!r}"


def _first_problem(lines: list[str], file: ServerFile) -> str | None:
    for number, line in enumerate(lines):
        cells = line.split("\t")
        place = f"line {number + 2}"
        if len(cells) != len(HEADER):
            return f"{place}: found {line[:60]!r}, expected an index, a tab and a prediction"
        if number == file.rows:
            break
        if cells[0] != str(number):
            return f"{place}: found index {cells[0][:20]!r}, expected {number}"
        problem = _problem_of_prediction(cells[1], file)
        if problem:
            return f"{place}: prediction: {problem}"
    if len(lines) != file.rows:
        return f"found {len(lines):,} rows, expected {file.rows:,}"
    return None


def _problem_of_prediction(text: str, file: ServerFile) -> str | None:
    if file.labels:
        return None if text in file.labels else one_of(text, file.labels)
    low, high = file.score_range or (-math.inf, math.inf)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    in_range = low <= value <= high
    return None if in_range else f"found {text!r}, expected a number from {low:g} to {high:g}"
