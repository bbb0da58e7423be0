"""Files in YAML: each key of a mapping stands there once, as YAML itself asks."""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from subtune.errors import SubtuneError


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
        SubtuneError: a key stands twice in one mapping.
        yaml.YAMLError: the file is not YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except SubtuneError as error:
        raise SubtuneError(f"{path}: {error}") from None


def require_unique_keys(path: Path) -> None:
    """Check a file that another program reads, and that need not be YAML.

    Raises:
        SubtuneError: a key stands twice in one mapping.
    """
    with contextlib.suppress(yaml.YAMLError):
        load(path)
