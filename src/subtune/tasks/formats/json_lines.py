"""JSON lines: an object per line, which is a row."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import text


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows by column, each with its line. Numbers are text, as they are written.

    Raises:
        SubtuneError: the file is not UTF-8, or a line is no JSON object.
    """
    # Only line ends separate rows: a text may hold other characters that Unicode calls line ends.
    for line, content in enumerate(io.StringIO(text.read(path), newline=""), start=1):
        if not content.strip():
            continue
        place = f"{path}: not a readable {path.suffix} file: line {line}"
        try:
            row = json.loads(
                content.rstrip(), parse_int=str, parse_float=str, parse_constant=lambda name: None
            )
        except json.JSONDecodeError as error:
            said = f"{error.msg} in column {error.colno}"
            raise SubtuneError(f"{place}: {said}, expected an object") from None
        except RecursionError:
            raise SubtuneError(f"{place}: too many brackets, expected an object") from None
        if not isinstance(row, dict):
            raise SubtuneError(f"{place}: found {text.in_words(row)}, expected an object")
        yield line, row
