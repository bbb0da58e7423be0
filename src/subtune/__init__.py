"""Find the few parameters of a pretrained model that are worth fine-tuning.

`compare` compares fine-tuning methods on your data and model, and `load` opens earlier results. An
invalid argument, file or setting raises a `SubtuneError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from subtune.core import VERSION
from subtune.core.errors import SubtuneError

if TYPE_CHECKING:
    from subtune.comparison.question import compare
    from subtune.comparison.results import Comparison, load

__version__ = VERSION
__all__ = ["Comparison", "SubtuneError", "compare", "load"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because its dependencies take seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module 'subtune' has no attribute {name!r}")
    module = "question" if name == "compare" else "results"
    return getattr(import_module(f"subtune.comparison.{module}"), name)


def __dir__() -> list[str]:
    """List all public names, so that notebooks can complete names that are not imported yet."""
    return sorted({*globals(), *__all__})
