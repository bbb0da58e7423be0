"""Uploads to the hub, or one line that helps if they cannot be made."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subtune.core.errors import SubtuneError, cut, reason_of

# An earlier export to the same repository may have left these. They would load with, or instead of,
# the new one.
LEFT_BEHIND = ("model*.safetensors", "model.safetensors.index.json", "config.json", "adapter_*")
LOG_IN = "call `hf auth login` with a token that may write, or set HF_TOKEN"


def require_ready(repository: str) -> None:
    """Refuse what cannot be pushed, before any work.

    Raises:
        SubtuneError: the hub cannot have such a name, does not know the user, or is out of reach.
    """
    import huggingface_hub
    from huggingface_hub.utils import validate_repo_id

    expected = "expected OWNER/NAME of letters, digits, and . - _ between them"
    try:
        validate_repo_id(repository)
    except ValueError:
        raise SubtuneError(f"--push: found {cut(repository)!r}, {expected}") from None
    if "/" not in repository:
        raise SubtuneError(f"--push: found {cut(repository)!r}, {expected}")
    with _one_line(repository):
        huggingface_hub.HfApi().whoami()


def upload(folder: Path, repository: str, private: bool) -> str:
    """Upload a folder as one commit of a model repository, which is made if need be.

    Return its address.

    Raises:
        SubtuneError: the hub refuses it or is out of reach, or a repository is public that should
            be ``private``.
    """
    import huggingface_hub

    api = huggingface_hub.HfApi()
    with _one_line(repository):
        url = api.create_repo(repository, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise SubtuneError(
                f"--private: {repository} is there already and is public; make it private on the "
                "hub, or name a new one"
            )
        api.upload_folder(
            folder_path=folder,
            repo_id=repository,
            commit_message="Export of subtune",
            delete_patterns=list(LEFT_BEHIND),
        )
    return str(url)


@contextmanager
def _one_line(repository: str) -> Iterator[None]:
    """Turn exceptions of the hub's library into one line: what failed, why, and what helps."""
    from huggingface_hub.errors import LocalTokenNotFoundError

    problem = f"--push: could not upload to {repository}"
    try:
        yield
    except SubtuneError:
        raise
    except LocalTokenNotFoundError:
        raise SubtuneError(f"{problem}: found no token of the hub; {LOG_IN}") from None
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        advice = {
            401: f"the hub does not take the token; {LOG_IN}",
            403: f"the token may not write there; name a repository of yours, or {LOG_IN}",
            404: f"it is not there, or the token may not see it; {LOG_IN}",
        }.get(status or 0, f"{reason_of(error)}; check the network, and call again")
        raise SubtuneError(f"{problem}: {advice}") from None
