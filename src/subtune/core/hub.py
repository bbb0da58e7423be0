"""Downloads from the Hugging Face hub, and the commits of its branches and tags.

The hub's answers, such as commits, are stored in a file in the results directory. Therefore later
plans are identical, and need no network, until you delete an answer from this file. Functions raise
a `SubtuneError` if the hub cannot be reached, or if the file with its answers cannot be read or
written.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from subtune.core.errors import SubtuneError, convert_errors, error_reason
from subtune.core.files import read_package_yaml, write_text

GLUE = "nyu-mll/glue"
SQUAD = "rajpurkar/squad"
UNIVERSAL_DEPENDENCIES = "universal-dependencies/universal_dependencies"
# The papers' models, by the names that they have in configurations.
PAPERS_MODELS = read_package_yaml("subtune.core", "models.yaml")
# Maps models and datasets to the commits that are used if the configuration has no revision. All
# other repositories use the branch `main`.
COMMITS = {model["hub"]: model["commit"] for model in PAPERS_MODELS.values()} | {
    GLUE: "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
    SQUAD: "7b6d24c440a36b6815f21b70d25016731768db1f",
    # A commit of the branch `refs/convert/parquet`.
    UNIVERSAL_DEPENDENCIES: "bc04fa5dd6c03bcb03355f289f2ce385fecc7250",
}
SECONDS_TO_ANSWER = 20
COMMIT = re.compile(r"^[0-9a-f]{40}$")
# The content of the file with the hub's answers. An answer is a commit or a kind of pooling.
KEPT = TypeAdapter(dict[str, Annotated[str, Field(pattern=r"^([0-9a-f]{40}|first|mean)$")]])


def download_snapshot(problem: str, instead: str, repository: str, **settings: Any) -> Path:
    """Download a repository's files, and return the local directory.

    Args:
        problem: the beginning of an error message.
        instead: the end of an error message, which says what a user without a network can do.
        settings: arguments of ``huggingface_hub.snapshot_download``, such as the revision.
    """
    import huggingface_hub

    advice = f"check the internet connection of the machine that downloads the files, or {instead}"
    with explain_hub_errors(problem, advice):
        return Path(huggingface_hub.snapshot_download(repository, **settings))


@contextmanager
def explain_hub_errors(problem: str, advice: str) -> Iterator[None]:
    """Convert exceptions of ``huggingface_hub`` to a `SubtuneError` that ends with ``advice``."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx

    try:
        yield
    except (httpx.HTTPError, errors.HFValidationError, OSError) as error:
        raise SubtuneError(f"{problem} ({error_reason(error)}); {advice}") from None


def pin_revision(
    repository: str,
    revision: str | None,
    repo_type: Literal["model", "dataset"],
    kept: Path,
    key: str,
) -> str:
    """Look up the commit of a revision among the stored answers or, if missing, on the hub.

    Args:
        revision: a commit, tag or branch; None means the commit in `COMMITS`, by default ``main``.
        kept: the file with stored answers.
        key: the configuration key with which an error message begins.
    """
    revision = revision or COMMITS.get(repository, "main")
    if COMMIT.fullmatch(revision):
        return revision

    def ask() -> str:
        import huggingface_hub

        problem = f"{key}: cannot get the commit of {repository} at {revision} from the hub"
        advice = "write a commit (40 hexadecimal digits), or run this once with internet access"
        with explain_hub_errors(problem, advice):
            about = huggingface_hub.HfApi().repo_info(
                repository, repo_type=repo_type, revision=revision, timeout=SECONDS_TO_ANSWER
            )
        return str(about.sha)

    return cached_answer(kept, f"{repository}@{revision}", ask)


def cached_answer(kept: Path, key: str, ask: Callable[[], str]) -> str:
    """Return the answer ``key`` from the file ``kept``, or get it from ``ask`` and store it."""
    answers = _read_stored_answers(kept)
    if key not in answers:
        # Another process may have written the file in the meantime.
        answers = {key: ask()} | _read_stored_answers(kept)
        with convert_errors(f"cannot write {kept}"):
            write_text(kept, json.dumps(answers, indent=2, sort_keys=True) + "\n")
    return answers[key]


def fetch_text(repository: str, commit: str, key: str, name: str) -> str | None:
    """Download the text file ``name`` of a model's repository; return None if it does not exist."""
    import huggingface_hub

    problem = f"{key}: missing, and cannot get {name} of {repository} at {commit} from the hub"
    with explain_hub_errors(problem, f"set {key}, or run this once with internet access"):
        try:
            path = huggingface_hub.hf_hub_download(repository, name, revision=commit)
        except huggingface_hub.errors.RemoteEntryNotFoundError:
            return None
        return Path(path).read_text(encoding="utf-8")


def _read_stored_answers(kept: Path) -> dict[str, str]:
    try:
        return KEPT.validate_json(kept.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise SubtuneError(
            f"{kept}: cannot be read, expected JSON with a commit (40 hexadecimal digits) for each "
            "repository and revision; correct or delete the file"
        ) from None
