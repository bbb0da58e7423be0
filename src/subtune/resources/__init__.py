"""Facts that are data, in files of this folder."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def read(name: str) -> dict[str, Any]:
    """What a YAML file of this folder holds."""
    text = (resources.files(__name__) / f"{name}.yaml").read_text(encoding="utf-8")
    # libyaml's loader is ten times as fast, where there is one.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
