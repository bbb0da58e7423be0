"""Errors for users: one line that states the problem, and the expected value or what to do."""

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# A message shows at most `LONGEST_NAME` characters of a name, and `MOST_NAMES` names of a list.
LONGEST_NAME = 60
MOST_NAMES = 300
# Maps pydantic's error types to descriptions of the expected value.
EXPECTED = {
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "string_type": "text",
    "invalid_key": "a string as key",
}


class SubtuneError(Exception):
    """A problem that the user can fix, shown without a traceback and without control characters."""

    def __str__(self) -> str:
        return escape_control_characters(super().__str__())


def escape_control_characters(text: str) -> str:
    """Escape the control characters of a string, except for line breaks."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text
    )


@contextmanager
def convert_errors(what: str) -> Iterator[None]:
    """Convert exceptions in this block to a one-line `SubtuneError` that begins with ``what``."""
    try:
        yield
    except SubtuneError:
        raise
    except Exception as error:
        raise SubtuneError(f"{what}: {error_reason(error)}") from None


@contextmanager
def locate_errors(place: str) -> Iterator[None]:
    """Prepend a place, such as a key of the configuration, to the message of a `SubtuneError`."""
    try:
        yield
    except SubtuneError as error:
        raise SubtuneError(f"{place}: {error}") from None


@contextmanager
def explain_pydantic_errors(what: object) -> Iterator[None]:
    """Convert a validation error to a `SubtuneError`, which begins with ``what`` and the key."""
    # Jobs import this module, but most jobs do not need pydantic, so it is imported here.
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        parts = [str(what), "".join(steps).removeprefix("."), describe_pydantic_error(first)]
        raise SubtuneError(": ".join(filter(None, parts))) from None


def error_reason(error: Exception) -> str:
    """Return the first line of an exception's message, or two if the first ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"{said} is not a known name"
    return said or type(error).__name__


def format_allowed(found: object, allowed: Iterable[str]) -> str:
    """Format the end of a message: the value found, all allowed values, and the closest of them."""
    name = shorten(found) if isinstance(found, str) else found
    return f"found {name!r}, expected one of {_format_choices(found, allowed)}"


def format_missing_column(column: str, columns: Iterable[str]) -> str:
    """Format the end of a message about a column that is missing from a table."""
    return f"no column {shorten(column)!r}, expected one of {_format_choices(column, columns)}"


def _format_choices(found: object, allowed: Iterable[str]) -> str:
    names = list(allowed)
    return join_names(names) + suggest_name(str(found), names)


def suggest_name(found: str, names: Sequence[str], cutoff: float = 0.5) -> str:
    """Format the end of a message: the closest of the names, or nothing below a similarity."""
    # Case is ignored. If names differ only in case, the first of them is suggested.
    by_folded = {name.casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(found.casefold(), by_folded, n=1, cutoff=cutoff)
    return f" (did you mean {shorten(by_folded[near[0]])!r}?)" if near else ""


def describe_pydantic_error(problem: "ErrorDetails") -> str:
    """Describe the value that pydantic rejected and what was expected, without the key."""
    value, kind, context = problem["input"], problem["type"], problem.get("ctx", {})
    if kind == "too_short":
        return f"found {value!r}, expected at least {format_count(context['min_length'], 'value')}"
    if kind == "missing":
        return "missing, expected a value"
    if kind == "value_error":
        return str(context["error"])
    if kind == "json_invalid":
        return f"not valid JSON ({context['error']}), expected a complete JSON file"
    message = problem["msg"].removeprefix("Input should be ").removeprefix("String should have ")
    expected = EXPECTED.get(kind, f"{message[0].lower()}{message[1:]}")
    return f"found {shorten(repr(value))}, expected {expected}"


def join_names(names: Iterable[str], most: int = MOST_NAMES, joined: str = "or") -> str:
    """Format the first ``most`` names as a comma-separated list, and count the remaining names."""
    names = list(names)
    others = len(names) - most
    rest = f" {joined} {others:,} {'other' if others == 1 else 'others'}" if others > 0 else ""
    return ", ".join(map(_quote_name, names[:most])) + rest


def format_count(number: int, noun: str, more: str = "s") -> str:
    """Format a number with its noun, as in ``1 class`` or ``1,200 classes``."""
    return f"{number:,} {noun}{'' if number == 1 else more}"


def format_duration(seconds: float) -> str:
    """Format a duration in hours, minutes or seconds."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return "a minute" if seconds >= 55 else format_count(max(round(seconds), 1), "second")


def key_path(steps: Iterable[object]) -> str:
    """Join the parts of a key with dots, as in ``models.minilm.path``."""
    return ".".join(_quote_name(shorten(str(step))) for step in steps)


def shorten(text: str, most: int = LONGEST_NAME) -> str:
    """Shorten a string to ``most`` characters, with ``...`` at the end if it was longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def quote(value: Any) -> str:
    """Format a value for a message: strings in quotes, other types as JSON. Shorten long values."""
    if isinstance(value, str):
        return repr(shorten(value))
    return shorten(json.dumps(value, default=str))


def _quote_name(name: str) -> str:
    """Format a name for a message, with quotes if it is empty or has control characters."""
    return shorten(name) if name and name.isprintable() else repr(shorten(name))
