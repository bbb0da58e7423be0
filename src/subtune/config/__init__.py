"""The configuration, ``config.yaml``, as a parsed file.

`subtune.config.schema` has its settings. Nothing here imports them, because that takes time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from subtune.core.errors import SubtuneError


def parse_config_file(path: Path) -> Mapping[str, Any]:
    """Return the content of a configuration file, or of ``config`` in a profile, unchecked.

    Raises:
        SubtuneError: the file is missing, or not YAML with keys and values.
    """
    try:
        data = parse_yaml(path)
    except FileNotFoundError:
        raise SubtuneError(f"found no configuration file {str(path)!r}") from None
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{path}: {reason}, expected a file such as config.yaml") from None
    except yaml.YAMLError as error:
        raise SubtuneError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        kind = "nothing" if data is None else type(data).__name__
        raise SubtuneError(f"{path}: found {kind}, expected keys and values")
    return data.get("config", data)


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses repeated keys. PyYAML itself takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Keys are compared before the mapping is constructed. Constructing it adds the keys that
        # `<<` merges, and a key may override a merged one.
        node = super().compose_mapping_node(anchor)
        line_of: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line = key.start_mark.line + 1
            if key.value in line_of:
                raise SubtuneError(
                    f"{self.name}: line {line}: found {key.value!r} a second time, the first is in "
                    f"line {line_of[key.value]}, expected each key once"
                )
            line_of[key.value] = line
        return node


def parse_yaml(path: Path) -> Any:
    """Parse a YAML file, and refuse repeated keys in a mapping and other encodings than UTF-8."""
    with path.open(encoding="utf-8") as file:
        try:
            return yaml.load(file, Loader=_UniqueKeys)
        except UnicodeDecodeError as error:
            raise SubtuneError(f"{path}: expected a file in UTF-8 ({error})") from None
