"""Stand-ins for packages that are absent where Snakemake plans.

Snakemake's own environment may have nothing but Snakemake. Planning imports modules whose functions
compute, and calls none of these functions. A stand-in lets such a module be imported, and refuses
to be used.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Never

from subtune.core.errors import SubtuneError

# The packages that modules of planning import, without those that Snakemake itself needs.
PACKAGES = ("huggingface_hub", "numpy", "pandas", "pyarrow", "safetensors", "tokenizers")


class Absent:
    """A name of an absent package, which may stand in an annotation but cannot be called."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _find_attribute(self._name, name)

    def __call__(self, *of: Any, **named: Any) -> Never:
        package = self._name.split(".")[0]
        raise SubtuneError(
            f"{package}: not installed in Snakemake's environment, and planning this configuration "
            f"needs it ({self._name}); call Snakemake from an environment with subtune (`make "
            "install`)"
        )

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __getitem__(self, item: Any) -> "Absent":
        return self


def _find_attribute(of: str, name: str) -> Any:
    """Return a stand-in for an attribute: an exception that nothing raises, or an `Absent`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Exception,), {}) if name.endswith("Error") else Absent(f"{of}.{name}")


class _AbsentModule(ModuleType):
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        return _find_attribute(self.__name__, name)


class _Finder(MetaPathFinder, Loader):
    """Finds the stand-ins of absent packages and of their modules."""

    def __init__(self, packages: set[str]):
        self.packages = packages

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name.split(".")[0] in self.packages:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stand-in has every name."""


@contextmanager
def absent_packages() -> Iterator[None]:
    """Let modules import absent ones of `PACKAGES` in this block.

    Outside of it, Snakemake sees again which packages are there.
    """
    finder = _Finder({name for name in PACKAGES if find_spec(name) is None})
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in [*sys.modules.items()]:
            if isinstance(module, _AbsentModule):
                del sys.modules[name]
