"""Stand-ins for packages that planning imports but does not use.

Snakemake's own environment may contain only Snakemake. An error is raised if a stand-in is used.
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

# The packages that planning imports, except for those that Snakemake itself requires.
PLANNING_PACKAGES = ("huggingface_hub", "numpy", "pandas", "pyarrow", "safetensors", "tokenizers")


class Absent(ModuleType):
    """Stand-in for an absent package or one of its names: valid in annotations, but calls fail."""

    def __getattr__(self, name: str) -> Any:
        """Create a stand-in, or for an ``…Error`` an exception class, as ``except`` requires."""
        if name.startswith("__"):
            raise AttributeError(name)
        is_error = name.endswith("Error")
        return type(name, (Exception,), {}) if is_error else Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Never:
        package = self.__name__.split(".")[0]
        raise SubtuneError(
            f"{package}: not installed in Snakemake's environment, but planning this configuration "
            f"needs it ({self.__name__}); run Snakemake in an environment with subtune (`make "
            "install`)"
        )

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __getitem__(self, item: Any) -> "Absent":
        return self


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: set[str]):
        self.packages = packages

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name.split(".")[0] in self.packages:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, because a stand-in creates its attributes when they are read."""


@contextmanager
def absent_packages() -> Iterator[None]:
    """Let this block import the packages in `PLANNING_PACKAGES` even if they are not installed."""
    finder = _Finder({name for name in PLANNING_PACKAGES if find_spec(name) is None})
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in [*sys.modules.items()]:
            if isinstance(module, Absent):
                del sys.modules[name]
