"""Values that decide a result, and the content ids made from them."""

import json
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from subtune.core.files import hash_text


class Value(BaseModel):
    """An immutable value. Two equal values have the same id, on every machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def written(self) -> dict[str, Any]:
        """Return the value as JSON has it, without the fields that have their default.

        A new field with a default therefore changes no id. Versions are always written: a newer
        version is another value.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        written = {}
        for name, field in type(self).model_fields.items():
            # A default may depend on the other fields.
            default = field.get_default(call_default_factory=True, validated_data=fields)
            if name.endswith("_version") or fields[name] != default:
                written[name] = _written(fields[name])
        return written

    def canonical(self) -> str:
        """Return `written` as JSON with sorted keys and without spaces."""
        return canonical_json(self.written())

    def replaced(self, **fields: Any) -> Self:
        """Return the same value with other fields."""
        # `model_copy` would copy the cached id, too.
        same = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**same | fields)

    @cached_property
    def id(self) -> str:
        """The content id of `written`."""
        return content_id(self.written())


def _written(content: Any) -> Any:
    if isinstance(content, Value):
        return content.written()
    if isinstance(content, tuple):
        return [_written(item) for item in content]
    return content


def canonical_json(data: Any) -> str:
    """Return JSON with sorted keys and without spaces."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_id(data: Any) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hash_text(canonical_json(data))
