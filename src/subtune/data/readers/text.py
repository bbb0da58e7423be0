"""Code that all readers share: extensions and encodings of files, and the text of cells."""

import codecs
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError

# os.path returns False for names that the system refuses; methods of pathlib may raise.
is_file = os.path.isfile
is_directory = os.path.isdir


def ending_of(path: Path) -> str:
    """Return a file's extension in small letters, such as ``.csv``."""
    return path.suffix.lower()


def read_text(path: Path, encoding: str | None = None) -> str:
    """Return the text of a file without a byte-order mark. Line ends are not changed.

    Args:
        path: the file.
        encoding: Python's name of the encoding; default: UTF-16 if the file begins with its
            byte-order mark, else UTF-8.

    Raises:
        SubtuneError: the file cannot be read or decoded, has a NUL, or Python does not know the
            encoding.
    """
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{path}: {reason}, expected a file in UTF-8") from None
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = encoding or ("UTF-16" if is_utf16 else "UTF-8")
    try:
        text = content.decode(name)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SubtuneError(
            f"{path}: line {line}: found the byte 0x{content[error.start]:02x}, which is not "
            f"{name}, expected a file in {name}, or a table with its `encoding`"
        ) from None
    except (LookupError, ValueError):
        raise SubtuneError(
            f"encoding: found {name!r}, expected one such as latin-1 or utf-16"
        ) from None
    if "\0" in text:
        line = line_number(text, text.index("\0"))
        raise SubtuneError(f"{path}: line {line}: found '\\x00', expected text")
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without line ends, which are ``\\n`` or ``\\r\\n``.

    `str.splitlines` would also split at Unicode's other line ends.
    """
    return [line.removesuffix("\r") for line in text.split("\n")]


def line_number(text: str, position: int) -> int:
    """Return the number, from 1, of the line of the character at ``position``."""
    return text.count("\n", 0, position) + 1


def cell_text(cell: Any) -> Any:
    """Return a cell as text, or None if it is empty. Lists and objects are not converted."""
    # NaN is not equal to itself.
    if cell is None or cell != cell:
        return None
    # Excel stores integers as decimals; so does pandas if a column has missing values.
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell if isinstance(cell, str | list | dict) else str(cell)


def require_once(columns: Collection[str], header: Sequence[Any], place: str) -> None:
    """Refuse a header with a column twice: one of ``columns`` or, if there are none, any column."""
    for name in columns or filter(None, header):
        if header.count(name) > 1:
            raise SubtuneError(f"{place}: found column {name!r} twice, expected it once")
