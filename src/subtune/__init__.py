"""The few parameters of a pretrained model that are worth fine-tuning.

`compare` finds them for your rows and model, and `load` opens earlier results.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from subtune.core import VERSION

if TYPE_CHECKING:
    from subtune.comparison.question import compare
    from subtune.comparison.results import Comparison, load

__version__ = VERSION
__all__ = ["Comparison", "compare", "load"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the libraries behind them take seconds."""
    if name not in __all__:
        raise AttributeError(f"module 'subtune' has no attribute {name!r}")
    module = "question" if name == "compare" else "results"
    return getattr(import_module(f"subtune.comparison.{module}"), name)
