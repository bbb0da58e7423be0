"""Files in YAML: each key of a mapping stands there once, as YAML itself asks."""

import contextlib
import math
from pathlib import Path
from typing import Any

import yaml

from subtune.core.errors import SubtuneError

# A file of few lines says more where aliases repeat what aliases repeat.
MOST_VALUES = 1_000_000


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML takes the last of equal keys without a word."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # As it is written: constructing a mapping adds the keys of those that it is merged with.
        node = super().compose_mapping_node(anchor)
        line_of: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in line_of:
                raise SubtuneError(
                    f"line {line}: found {key.value!r} a second time, the first is in line "
                    f"{line_of[key.value]}, expected each key once"
                )
            line_of[key.value] = line
        return node


def load(path: Path) -> Any:
    """What a file holds.

    Raises:
        SubtuneError: a key stands twice in one mapping, or aliases repeat values without end.
        yaml.YAMLError: the file is not YAML.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except SubtuneError as error:
        raise SubtuneError(f"{path}: {error}") from None
    if _count(data, {}) > MOST_VALUES:
        raise SubtuneError(
            f"{path}: found more than {MOST_VALUES:,} values with those that aliases (*) repeat, "
            "expected fewer"
        )
    return data


def _count(value: Any, counts: dict[int, float]) -> float:
    """How many values there are in one; those in one within itself are without end."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        counts[id(value)] = math.inf
        items = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count(item, counts) for item in items)
    return counts[id(value)]


def require_unique_keys(path: Path) -> None:
    """Check a file that another program reads, and that need not be YAML.

    Raises:
        SubtuneError: a key stands twice in one mapping.
    """
    with contextlib.suppress(yaml.YAMLError):
        load(path)
