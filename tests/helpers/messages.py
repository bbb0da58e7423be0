"""Check the form of error messages, and list all texts that users can read.

    python -m tests.helpers.messages

prints all texts of three words or more in the library, except docstrings, and the file of each.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from subtune.core.errors import SubtuneError
from tests.helpers.project import ROOT

# A message says what was expected or, after a semicolon, what to do.
ADVICE = re.compile(r"expected \S|; \S")
# Parts of tracebacks, and internal names, which mean nothing to users.
INTERNAL = re.compile(r"Traceback|<class|object at 0x|\bsubtune\.[a-z]+\.|NoneType|pydantic")


def assert_message(text: str, place: str, found: str) -> None:
    """Check that an error message is one line that begins with its place and gives advice.

    Args:
        text: the message.
        place: the file, key or option that the message is about.
        found: a text that the message contains after its place, such as the wrong value.
    """
    assert text.splitlines() == [text.removesuffix("\n")]
    assert text.startswith(place)
    rest = text.removeprefix(place)
    assert found in rest, text
    assert ADVICE.search(rest), text
    assert not INTERNAL.search(text), text


@contextmanager
def refused(place: str, found: str) -> Iterator[None]:
    """Check that the block raises `SubtuneError` with a message that `assert_message` accepts."""
    with pytest.raises(SubtuneError) as error:
        yield
    assert_message(str(error.value), place, found)


def list_texts(code: str) -> Iterator[str]:
    """Yield string literals of three words or more in a module, except docstrings.

    Expressions in f-strings are kept as ``{expression}``.
    """
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
