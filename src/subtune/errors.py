"""Errors for people: one line that says what is wrong, what was expected and what to do."""

import difflib
from collections.abc import Iterable


class SubtuneError(Exception):
    """A problem that the user can mend. Its text is shown without a traceback."""


def one_of(found: object, allowed: Iterable[str]) -> str:
    """Say what was found, what is allowed, and the allowed name nearest to it."""
    names = list(allowed)
    near = difflib.get_close_matches(str(found), names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"found {found!r}, expected one of {', '.join(names)}{hint}"
