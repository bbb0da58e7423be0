"""Errors for users: one line that says what is wrong, what was expected and what to do."""

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# The most characters of a name, and the most names of a list, that a message quotes.
LONGEST_NAME = 60
MOST_NAMES = 300
# The expected values, by the type of pydantic's error.
EXPECTED = {
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "string_type": "text",
    "invalid_key": "text as key",
}


class SubtuneError(Exception):
    """A problem that the user can fix. Its text is shown without a traceback.

    Control characters are escaped, because names of files and columns may have them.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """Return text with escaped control characters, except for line breaks."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text
    )


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn any exception of a library into one line that begins with ``what``.

    Raises:
        SubtuneError: the library has raised an exception.
    """
    try:
        yield
    except SubtuneError:
        raise
    except Exception as error:
        raise SubtuneError(f"{what}: {error_reason(error)}") from None


@contextmanager
def locate_errors(place: str) -> Iterator[None]:
    """Begin the line of an error with its place, such as a key of the configuration."""
    try:
        yield
    except SubtuneError as error:
        raise SubtuneError(f"{place}: {error}") from None


@contextmanager
def explain_pydantic_errors(what: object) -> Iterator[None]:
    """Turn pydantic's first error into one line: the place, and what was found and expected.

    ``what`` is the beginning of the place, such as a file.

    Raises:
        SubtuneError: pydantic has refused a value.
    """
    # Snakemake's jobs import this file but not pydantic.
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        parts = [str(what), "".join(steps).removeprefix("."), problem_text(first)]
        raise SubtuneError(": ".join(filter(None, parts))) from None


def error_reason(error: Exception) -> str:
    """Return a library's message: its first line, and the second if the first ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"{said} is not known there"
    return said or type(error).__name__


def one_of(found: object, allowed: Iterable[str]) -> str:
    """Return a message with what was found, what is allowed, and the allowed name nearest to it."""
    names = list(allowed)
    near = difflib.get_close_matches(str(found), names, n=1, cutoff=0.5)
    hint = f" (did you mean {cut(near[0])!r}?)" if near else ""
    found = cut(found) if isinstance(found, str) else found
    return f"found {found!r}, expected one of {listed(names)}{hint}"


def problem_text(problem: "ErrorDetails") -> str:
    """Return what pydantic found and expected, without the path."""
    value, kind, context = problem["input"], problem["type"], problem.get("ctx", {})
    if kind == "too_short":
        return f"found {value!r}, expected at least {context['min_length']}"
    if kind == "missing":
        return "found nothing, expected a value"
    if kind == "value_error":
        return str(context["error"])
    if kind == "json_invalid":
        return f"found no JSON ({context['error']}), expected a whole file"
    message = problem["msg"].removeprefix("Input should be ").removeprefix("String should have ")
    expected = EXPECTED.get(kind, f"{message[0].lower()}{message[1:]}")
    return f"found {cut(repr(value))}, expected {expected}"


def listed(names: Iterable[str], most: int = MOST_NAMES, joined: str = "or") -> str:
    """Return the first ``most`` names in one line, and the number of the others."""
    names = list(names)
    others = len(names) - most
    rest = f" {joined} {others:,} {'other' if others == 1 else 'others'}" if others > 0 else ""
    return ", ".join(map(_quote_name, names[:most])) + rest


def plural(number: int, noun: str, more: str = "s") -> str:
    """Return a number of things, as in ``1 class`` or ``1,200 classes``."""
    return f"{number:,} {noun}{'' if number == 1 else more}"


def key_path(steps: Iterable[object]) -> str:
    """Return the path of a key, such as ``models.minilm.path``."""
    return ".".join(_quote_name(cut(str(step))) for step in steps)


def cut(text: str, most: int = LONGEST_NAME) -> str:
    """Return the beginning of a long text; a short text stays as it is."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shown(value: Any) -> str:
    """Return a value as messages show it: text in quotes, others as JSON; cut if it is long."""
    return repr(cut(value)) if isinstance(value, str) else cut(json.dumps(value))


def _quote_name(name: str) -> str:
    """Return a name as messages show it. Names from files may have control characters."""
    return cut(name) if name and name.isprintable() else repr(cut(name))
