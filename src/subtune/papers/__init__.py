"""The papers: one module each, which is all that has to be added for another one."""

import hashlib
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.papers import checking
from subtune.papers.base import Paper

# What stands in for a paper where an experiment reproduces none.
NO_PAPER = Paper(name="", citation="")
# Modules of this package that are no papers.
OTHERS = ("base", "checking", "common", "printed")


@cache
def all_papers() -> dict[str, Paper]:
    """Every paper by the name of its module. One that cannot be imported has no content."""
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: _imported(name)[0] for name in modules if name not in OTHERS}


@cache
def _imported(name: str) -> tuple[Paper, str | None]:
    """A module's paper, and what keeps it from being one."""
    try:
        paper = importlib.import_module(f"{__name__}.{name}").PAPER
    except Exception as error:  # whatever its author has written
        reason = " ".join(str(error).split())
        return Paper(name=name, citation=name), f"{type(error).__name__}: {reason}"
    return paper, None


def require_sound(name: str) -> None:
    """Check what a paper declares.

    Raises:
        SubtuneError: one line per problem: where it is, what was found, what was expected.
    """
    paper, reason = _imported(name)
    problems = [reason] if reason else [*checking.problems(paper, name)]
    if problems:
        raise SubtuneError("\n".join(f"papers/{name}.py: {problem}" for problem in problems))


def find(name: str | None) -> Paper:
    """A paper by its name; of no name, `NO_PAPER`."""
    return all_papers()[name] if name else NO_PAPER


@cache
def version_of_printed(name: str | None) -> str:
    """A hash of all numbers that a paper prints."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "printed" / name).glob("*.csv")) if name else ():
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]
