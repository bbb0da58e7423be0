"""The form of every message about a user's mistake: *place: found …, expected …*."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from subtune.core.errors import SubtuneError

# A message ends with what was expected, or after a semicolon with what to do.
ADVICE = re.compile(r"expected \S|; \S")
# Words of tracebacks, and names inside this package or Python.
INTERNAL = re.compile(r"Traceback|<class|object at 0x|\bsubtune\.[a-z]+\.|NoneType|pydantic")


def assert_message(text: str, place: str, found: str) -> None:
    """Check that a message is a plain line that begins with its place.

    Args:
        text: the message.
        place: the file, key or option that the message is about.
        found: what was found there, or a part of what the message says of it.
    """
    assert text.splitlines() == [text.removesuffix("\n")]
    assert text.startswith(place)
    rest = text.removeprefix(place)
    assert found in rest, text
    assert ADVICE.search(rest), text
    assert not INTERNAL.search(text), text


@contextmanager
def refused(place: str, found: str) -> Iterator[None]:
    """Check that a mistake is refused with a message of the usual form."""
    with pytest.raises(SubtuneError) as error:
        yield
    assert_message(str(error.value), place, found)
