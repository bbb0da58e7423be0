"""Files from the hub, or one line that helps if they cannot be had."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from subtune.core.errors import SubtuneError, reason_of


class UnreachableError(SubtuneError):
    """The hub cannot be reached from here, now."""


def snapshot(
    repository: str,
    revision: str,
    patterns: Sequence[str],
    *,
    repo_type: str,
    name: str,
    instead: str,
) -> Path:
    """Return the local directory with a repository's files that match ``patterns``.

    An error message begins with ``name`` and ends with ``instead``: advice for a user without a
    network.

    Raises:
        SubtuneError: the hub cannot be reached, or has no such repository or revision.
    """
    import huggingface_hub

    advice = f"check the network of the machine that runs downloads, or {instead}"
    with asking_the_hub(f"{name} at {revision}", advice):
        folder = huggingface_hub.snapshot_download(
            repository, repo_type=repo_type, revision=revision, allow_patterns=list(patterns)
        )
    return Path(folder)


@contextmanager
def asking_the_hub(problem: str, advice: str) -> Iterator[None]:
    """Turn exceptions of the hub's library into one line: what failed, why, and what helps."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx

    try:
        yield
    except (httpx.HTTPError, errors.HFValidationError, OSError) as error:
        has_answered = isinstance(error, errors.HfHubHTTPError | errors.HFValidationError)
        kind = SubtuneError if has_answered else UnreachableError
        raise kind(f"{problem} ({reason_of(error)}); {advice}") from None
