"""The papers, one folder each."""

import importlib
import pkgutil

from subtune.papers.paper import Paper

# The paper of an experiment that reproduces no paper.
NO_PAPER = Paper(name="", citation="")


def paper_names() -> list[str]:
    """Return the names of all papers, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def find_paper(name: str | None) -> Paper:
    """Return a paper by its name, or `NO_PAPER` without a name."""
    if not name:
        return NO_PAPER
    # Import by name, because a paper adds only its folder: no list names the papers.
    return importlib.import_module(f"{__name__}.{name}.exhibits").PAPER
