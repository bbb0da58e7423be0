"""Text as a file holds it, and what of a file is no text."""

import re
from pathlib import Path

from subtune.core.errors import SubtuneError, cut

# What a broken file has in its texts: zeros, and halves of characters.
NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


def read(path: Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark; line ends are as they stand.

    Raises:
        SubtuneError: the file cannot be read, or has bytes that are not UTF-8, or a zero.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SubtuneError(f"{path}: {reason}, expected a file in UTF-8") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind the byte-order mark.
        start = error.start + len(content) - len(error.object)
        line = content.count(b"\n", 0, start) + 1
        raise SubtuneError(
            f"{path}: line {line}: found the byte 0x{content[start]:02x}, which is not UTF-8, "
            "expected a file in UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SubtuneError(f"{path}: line {line}: found '\\x00', expected text")
    return text


def shown(text: str) -> str:
    """A text as messages quote it: in one line, and cut off where it is long."""
    return repr(cut(text))
