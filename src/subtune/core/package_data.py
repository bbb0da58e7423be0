"""Data files inside the package, beside the modules that read them."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


def path_of(package: str, name: str):
    """Return the path of a file in a package."""
    return resources.files(package) / name


@cache
def read_yaml(package: str, name: str) -> Any:
    """Return the content of a package's YAML file."""
    text = path_of(package, name).read_text(encoding="utf-8")
    # If libyaml is installed, its loader is ten times as fast.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
