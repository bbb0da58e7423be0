"""A job of the plan: plain values, which a rule and a worker of `compare` read alike."""

import hashlib
import json
from typing import Any, NamedTuple

DIGEST_LENGTH = 12
Paths = dict[str, str | list[str]]


class Job(NamedTuple):
    """One piece of work: the values that decide its result, its files, and what it needs.

    All values are plain JSON. Paths are relative to the folder of the call.

    Attributes:
        step: a name in `subtune.steps.run.KINDS`.
        id: a content hash, or a name such as an experiment's. A job with a name has its file of
            the plan, ``spec``, among its inputs.
        spec: all values that decide the result.
        inputs: a path or a list of paths by name.
        outputs: the same.
        resources: values that decide no result: ``mem_mb`` and ``minutes`` for a first attempt,
            places such as ``store`` and ``hub_cache``, and the ``digest`` of the file of the spec.
    """

    step: str
    id: str
    spec: dict[str, Any]
    inputs: Paths
    outputs: Paths
    resources: dict[str, Any]


def files(paths: Paths) -> list[str]:
    """Return all paths of a job's inputs or outputs, in their order."""
    return [
        path for value in paths.values() for path in ([value] if isinstance(value, str) else value)
    ]


def text_of(job: Job) -> str:
    """Return the values of a job on which its result depends, as JSON."""
    fields = job._asdict()
    del fields["resources"]
    return json.dumps(fields, indent=1, sort_keys=True) + "\n"


def digest_of(text: str) -> str:
    """Return the first digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
