"""Files and the text that they hold, and models of texts in JSON."""

import codecs
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from subtune.core.errors import SubtuneError, cut

# Characters of broken files: zeros, and halves of characters.
NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
# Expected values by the type of pydantic's error.
EXPECTED = {
    "missing": "a value",
    "model_type": "an object",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "too_short": "at least one value",
}
# False if the system refuses a name or access, where pathlib may raise.
is_file = os.path.isfile
is_directory = os.path.isdir


def _not_blank(text: str) -> str:
    if not text.strip() or NO_CHARACTER.search(text):
        raise ValueError(f"found {shown(text)}, expected text")
    return text


# Text that says something.
Text = Annotated[str, AfterValidator(_not_blank)]


def read(path: Path, encoding: str | None = None) -> str:
    """Return the text of a file without a byte-order mark; line ends stay as they are.

    Args:
        encoding: one that Python knows; by default UTF-16 if the file begins with its byte-order
            mark, and else UTF-8.

    Raises:
        SubtuneError: the file cannot be read, or has bytes that are not of the encoding, or a zero,
            or Python does not know the encoding.
    """
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
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
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SubtuneError(f"{path}: line {line}: found '\\x00', expected text")
    return text


def shown(text: str) -> str:
    """Return a text as messages quote it: in one line, and cut off where it is long."""
    return repr(cut(text))


def problem(error: ValidationError) -> str:
    """Return in one line where pydantic's first error is, what it found and what it expected."""
    first = error.errors(include_url=False)[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    place = "".join(steps).removeprefix(".")
    if first["type"] == "value_error":
        said = str(first["ctx"]["error"])
    elif first["type"] == "json_invalid":
        said = f"found no JSON ({first['ctx']['error']}), expected a whole file"
    else:
        found = "nothing" if first["type"] == "missing" else in_words(first["input"])
        expected = EXPECTED.get(first["type"]) or first["msg"].splitlines()[0]
        said = f"found {found}, expected {expected}"
    return f"{place}: {said}" if place else said


def in_words(value: Any) -> str:
    """Return what messages call a value of a JSON file."""
    match value:
        case []:
            return "an empty list"
        case list():
            return "a list"
        case dict():
            return "an object"
        case str():
            return f"the text {shown(value)}"
    return cut(json.dumps(value))


def present(
    key: str, directory: str, expected: str, names: Mapping[str, str], may_lack: Collection[str]
) -> dict[str, Path]:
    """Return the file of each split, from its name in a directory.

    Splits in ``may_lack`` may have none. An error message begins with ``key``.

    Raises:
        SubtuneError: the directory, which has what is ``expected``, or a file is not there.
    """
    if not is_directory(directory):
        raise SubtuneError(f"{key}: found no directory {directory!r}, expected {expected}")
    paths = {split: Path(directory, name) for split, name in names.items()}
    for split, path in paths.items():
        if split not in may_lack and not is_file(path):
            raise SubtuneError(f"{key}: {path} is missing, expected the {split} file")
    return {split: path for split, path in paths.items() if is_file(path)}
