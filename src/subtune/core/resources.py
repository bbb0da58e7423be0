"""Facts that are data: files that lie beside the modules that read them."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


def path_of(package: str, name: str):
    """Return where a package's file lies, as something that can be opened."""
    return resources.files(package) / name


@cache
def read_yaml(package: str, name: str) -> Any:
    """Return what a package's YAML file holds."""
    text = path_of(package, name).read_text(encoding="utf-8")
    # libyaml's loader is ten times as fast, where there is one.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
