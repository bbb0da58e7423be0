"""Parsing of configuration files, without `subtune.config.schema`, which is slow to import."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from subtune.core.errors import SubtuneError


def parse_config_file(path: Path) -> Mapping[str, Any]:
    """Parse a configuration file, or the key ``config`` of a Snakemake profile, without checks."""
    try:
        data = parse_yaml(path)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(
            f"{path}: {reason}, expected a configuration file such as config.yaml"
        ) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise SubtuneError(
            f"{path}: not valid YAML ({reason}), expected a mapping (key: value)"
        ) from None
    if not isinstance(data, dict):
        kind = "nothing" if data is None else type(data).__name__
        raise SubtuneError(f"{path}: found {kind}, expected a mapping (key: value)")
    return data.get("config", data)


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that rejects repeated keys. PyYAML would use the last value."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # The constructed mapping also contains keys merged with `<<`, and a key may override a
        # merged one. Therefore keys are compared before construction.
        node = super().compose_mapping_node(anchor)
        line_of: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line = key.start_mark.line + 1
            if key.value in line_of:
                raise SubtuneError(
                    f"{self.name}: line {line}: found {key.value!r} a second time (first in line "
                    f"{line_of[key.value]}); remove one of the two"
                )
            line_of[key.value] = line
        return node


def parse_yaml(path: Path) -> Any:
    """Parse a YAML file. Repeated keys and encodings other than UTF-8 are rejected."""
    with path.open(encoding="utf-8") as file:
        try:
            return yaml.load(file, Loader=_UniqueKeys)
        except UnicodeDecodeError as error:
            raise SubtuneError(f"{path}: cannot decode ({error}), expected UTF-8") from None
