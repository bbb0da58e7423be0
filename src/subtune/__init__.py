"""The few parameters of a pretrained model that are worth fine-tuning.

`compare` finds them for your rows and model, and `load` opens earlier results.
`fisher`, `selection` and `train` are single steps of a comparison.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subtune.interface.comparison import Comparison, compare, load
    from subtune.interface.parts import fisher, selection, train

__version__ = "0.1.0"
__all__ = ["Comparison", "compare", "fisher", "load", "selection", "train"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the libraries behind them take seconds."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'subtune' has no attribute {name!r}")
    module = "parts" if name in ("fisher", "selection", "train") else "comparison"
    return getattr(import_module(f"subtune.interface.{module}"), name)
