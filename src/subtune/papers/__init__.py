"""The papers: one module each, which is all that has to be added for another one."""

import importlib
import pkgutil
from functools import cache

from subtune.papers.base import Paper

# What stands in for a paper where an experiment reproduces none.
NO_PAPER = Paper(name="", citation="")


@cache
def all_papers() -> dict[str, Paper]:
    """Every paper by its name: what the modules of this package call ``PAPER``."""
    modules = [
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if not module.ispkg
    ]
    papers = [module.PAPER for module in modules if hasattr(module, "PAPER")]
    return {paper.name: paper for paper in papers}


def find(name: str | None) -> Paper:
    """A paper by its name; of no name, `NO_PAPER`."""
    return all_papers()[name] if name else NO_PAPER
