"""YAML files in which no mapping has a key twice."""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from subtune.core.errors import SubtuneError


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses equal keys, of which PyYAML itself takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Constructing a mapping adds the keys of `<<`, so keys are compared before.
        node = super().compose_mapping_node(anchor)
        line_of: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in line_of:
                raise SubtuneError(
                    f"{self.name}: line {line}: found {key.value!r} a second time, the first is in "
                    f"line {line_of[key.value]}, expected each key once"
                )
            line_of[key.value] = line
        return node


def load(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        SubtuneError: a key stands twice in one mapping.
        yaml.YAMLError: the file is not YAML.
    """
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, Loader=_UniqueKeys)


def require_unique_keys(path: Path) -> None:
    """Check a file that another program reads. It need not be YAML.

    Raises:
        SubtuneError: a key stands twice in one mapping.
    """
    with contextlib.suppress(yaml.YAMLError):
        load(path)
