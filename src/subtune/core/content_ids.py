"""Values that decide a result, and the content ids made from them."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

ID_LENGTH = 12


class Value(BaseModel):
    """An immutable value. Two equal values have the same id, on every machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def canonical(self) -> str:
        """The value as JSON with sorted keys; unset options are left out."""
        return canonical(self.model_dump(mode="json", exclude_none=True))

    def replaced(self, **fields: Any) -> Self:
        """The same value with other fields."""
        # Not a copy, which would have the id of what it is copied from.
        same = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**same | fields)

    @cached_property
    def id(self) -> str:
        """Content id: the first 12 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return id_of(self.canonical())


def canonical(data: Any) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def id_of(canonical_json: str) -> str:
    """The content id of a value, of any version of its class."""
    return hashlib.sha256(canonical_json.encode()).hexdigest()[:ID_LENGTH]


def checksum(content: bytes) -> str:
    """What a file's content is known again by."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def fingerprint(*paths: Path) -> str:
    """Content hash of files, in the order given: where they lie does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()
