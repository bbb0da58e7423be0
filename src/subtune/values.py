"""Values that decide a result, and the content ids made from them."""

import hashlib
import json
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

ID_LENGTH = 12


class Value(BaseModel):
    """An immutable value. Two equal values have the same id, on every machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def canonical(self) -> str:
        """The value as JSON with sorted keys; unset options are left out."""
        data = self.model_dump(mode="json", exclude_none=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def id(self) -> str:
        """Content id: the first 12 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:ID_LENGTH]


def fingerprint(*paths: Path) -> str:
    """Content hash of files, in the order given: where they lie does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()
