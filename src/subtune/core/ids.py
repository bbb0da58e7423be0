"""Immutable values that determine a result, and content ids computed from them."""

import json
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from subtune.core.files import hash_text


class HashableModel(BaseModel):
    """An immutable value with an id. Equal values have the same id on every machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @cached_property
    def json_types(self) -> dict[str, Any]:
        """The fields as JSON types, except for fields with their default value.

        Therefore a new field with a default does not change ids. Fields named ``…_version`` are
        always included, because a new default version must change the id.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        written = {}
        for name, field in type(self).model_fields.items():
            # A default may depend on the other fields.
            default = field.get_default(call_default_factory=True, validated_data=fields)
            if name.endswith("_version") or fields[name] != default:
                written[name] = _convert_value(fields[name])
        return written

    def canonical(self) -> str:
        """Return `json_types` as JSON with sorted keys and without spaces."""
        return canonical_json(self.json_types)

    def replace(self, **fields: Any) -> Self:
        # `model_copy` would also copy the cached id.
        same = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**same | fields)

    @cached_property
    def id(self) -> str:
        """The content id of `json_types`."""
        return content_id(self.json_types)


def _convert_value(content: Any) -> Any:
    if isinstance(content, HashableModel):
        return content.json_types
    if isinstance(content, tuple):
        return [_convert_value(item) for item in content]
    return content


def canonical_json(data: Any) -> str:
    """Serialise data as JSON with sorted keys and without spaces."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_id(data: Any) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 hash of the data's canonical JSON."""
    return hash_text(canonical_json(data))
