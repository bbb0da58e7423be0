"""Files from the hub, and one line that helps where they cannot be had."""

from collections.abc import Sequence
from pathlib import Path

from subtune.errors import SubtuneError


def snapshot(
    repository: str,
    revision: str,
    patterns: Sequence[str],
    *,
    repo_type: str,
    name: str,
    instead: str,
) -> Path:
    """Download the files of a repository that match ``patterns`` at a revision.

    Args:
        repo_type: ``model`` or ``dataset``.
        name: how an error message begins: what could not be downloaded.
        instead: what a user without a network can do.

    Returns:
        The local directory that holds the files.

    Raises:
        SubtuneError: the hub cannot be reached, or has no such repository or revision.
    """
    import huggingface_hub
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        folder = huggingface_hub.snapshot_download(
            repository, repo_type=repo_type, revision=revision, allow_patterns=list(patterns)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SubtuneError(
            f"{name} at {revision} ({reason}); check the network of the machine that runs "
            f"downloads, or {instead}"
        ) from None
    return Path(folder)
