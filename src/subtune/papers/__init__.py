"""The papers: a folder each, which is all that another paper adds."""

import importlib
import pkgutil
from functools import cache

from subtune.core.errors import SubtuneError
from subtune.papers.paper import Paper, problems
from subtune.papers.shared import all_exhibits

# The paper of an experiment that reproduces none.
NO_PAPER = Paper(name="", citation="")


def names() -> list[str]:
    """Return the names of all papers, in the order of the alphabet."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@cache
def find(name: str | None) -> Paper:
    """Return a paper by its name, and `NO_PAPER` without a name.

    Raises:
        SubtuneError: its declarations have mistakes; one line for each.
    """
    if not name:
        return NO_PAPER
    try:
        paper: Paper = importlib.import_module(f"{__name__}.{name}").PAPER
    except Exception as error:  # whatever its author has written
        reason = " ".join(str(error).split())
        raise SubtuneError(f"papers/{name}: {type(error).__name__}: {reason}") from error
    found = [f"papers/{name}: {line}" for line in problems(paper, name, all_exhibits(paper))]
    if found:
        raise SubtuneError("\n".join(found))
    return paper
