"""The form of messages about a user's mistake, and a list of everything that users can read.

    python -m tests.helpers.messages

prints all texts of three words or more in the library's code, except docstrings, with their files.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from subtune.core.errors import SubtuneError
from tests.helpers.project import ROOT

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


def list_texts(code: str) -> Iterator[str]:
    """Yield the texts of three words or more in a module's code, with ``{value}`` for values."""
    nodes = [*ast.walk(ast.parse(code))]
    seen = {node.value for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    for node in nodes:
        text = None if node in seen else _join_text(node)
        if text and len(text.split()) >= 3:
            seen |= {*ast.walk(node)}
            yield " ".join(text.split())


def _join_text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_join_text(value) or "" for value in values)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
    return None


if __name__ == "__main__":
    package = ROOT / "src" / "subtune"
    for path in sorted(package.rglob("*.py")):
        for text in list_texts(path.read_text()):
            print(f"{path.relative_to(package)}: {text}")
