"""Uploads to the hub. If one fails, a `SubtuneError` says in one line why and what helps."""

from pathlib import Path

from subtune.core.errors import SubtuneError, one_line

# Files of an earlier export to the same repository, which would load instead of the new ones.
EARLIER = [
    "model*.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "adapter_*",
    "modules.json",
]
NEEDED = "--push: expected OWNER/NAME, a network, and a token that may write (`hf auth login`)"


def require_ready(repository: str) -> None:
    """Refuse a name that the hub cannot have, and a user that it does not know, before any work."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id

    with one_line(NEEDED):
        # The library takes names without an owner, too.
        validate_repo_id(repository if "/" in repository else f"/{repository}")
        HfApi().whoami()


def upload(folder: Path, repository: str, private: bool) -> str:
    """Upload a folder as one commit to a repository of models, old or new. Return its address."""
    import huggingface_hub

    api = huggingface_hub.HfApi()
    with one_line(NEEDED):
        url = api.create_repo(repository, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise SubtuneError(f"--private: {repository} is public; name a new one, or hide it")
        api.upload_folder(repo_id=repository, folder_path=folder, delete_patterns=EARLIER)
    return str(url)
