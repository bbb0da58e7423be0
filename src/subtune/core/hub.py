"""The hub: commits of its branches and tags, and downloads.

The hub's answers, such as commits, are stored in a file in the results directory. Later plans are
therefore the same, with or without a network. If a branch moves, nothing is trained again until you
delete its line in the file. If the hub fails, a `SubtuneError` gives reason and remedy.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from subtune.core.errors import SubtuneError, error_reason, one_line
from subtune.core.files import write_text

GLUE = "nyu-mll/glue"
SQUAD = "rajpurkar/squad"
UNIVERSAL_DEPENDENCIES = "universal-dependencies/universal_dependencies"
# Commits that are used if a configuration names no revision. Other repositories use `main`.
COMMITS = {
    GLUE: "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
    SQUAD: "7b6d24c440a36b6815f21b70d25016731768db1f",
    # The branch is `refs/convert/parquet`.
    UNIVERSAL_DEPENDENCIES: "bc04fa5dd6c03bcb03355f289f2ce385fecc7250",
    "google-bert/bert-base-cased": "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
    "google-bert/bert-large-cased": "06fa25dc1b6e034e91607fd67c247051ccaeff65",
    "FacebookAI/roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
}
SECONDS_TO_ANSWER = 20
COMMIT = re.compile(r"^[0-9a-f]{40}$")
# The stored answers: commits and poolings.
KEPT = TypeAdapter(dict[str, Annotated[str, Field(pattern=r"^([0-9a-f]{40}|first|mean)$")]])


def download_snapshot(
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
    with explain_hub_errors(f"{name} at {revision}", advice):
        folder = huggingface_hub.snapshot_download(
            repository, repo_type=repo_type, revision=revision, allow_patterns=list(patterns)
        )
    return Path(folder)


@contextmanager
def explain_hub_errors(problem: str, advice: str) -> Iterator[None]:
    """Turn exceptions of the hub's library into one line: what failed, why, and a remedy."""
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
    """Return the commit of a revision of a repository.

    Args:
        revision: a commit, tag or branch; default: the repository's commit in `COMMITS`, or `main`.
        kept: the file with stored commits.
        key: the configuration key with which an error message begins.

    Raises:
        SubtuneError: the hub cannot be asked, or has no such revision; or the file cannot be read
            or written.
    """
    revision = revision or COMMITS.get(repository, "main")
    if COMMIT.fullmatch(revision):
        return revision

    def ask() -> str:
        import huggingface_hub

        problem = f"{key}: could not ask the hub for the commit of {repository} at {revision}"
        advice = "name a commit (40 hexadecimal digits), or call once with a network"
        with explain_hub_errors(problem, advice):
            about = huggingface_hub.HfApi().repo_info(
                repository, repo_type=repo_type, revision=revision, timeout=SECONDS_TO_ANSWER
            )
        return str(about.sha)

    return remember_answer(kept, f"{repository}@{revision}", ask)


def remember_answer(kept: Path, question: str, ask: Callable[[], str]) -> str:
    """Return a stored answer from the file ``kept``, or ask for it and store it.

    Raises:
        SubtuneError: the file cannot be read or written.
    """
    answers = _read_answers(kept)
    if question not in answers:
        # Another process may have written the file meanwhile.
        answers = {question: ask()} | _read_answers(kept)
        with one_line(f"cannot write {kept}"):
            write_text(kept, json.dumps(answers, indent=2, sort_keys=True) + "\n")
    return answers[question]


def fetch_text(repository: str, commit: str, key: str, name: str) -> str | None:
    """Return the text of a file of a model's repository, or None if it has no such file.

    ``key`` is the key of the configuration that can replace the file.

    Raises:
        SubtuneError: the hub cannot be asked.
    """
    import huggingface_hub

    problem = f"{key}: missing, and could not ask the hub for {name} of {repository} at {commit}"
    with explain_hub_errors(problem, "write it, or call once with a network"):
        try:
            path = huggingface_hub.hf_hub_download(repository, name, revision=commit)
        except huggingface_hub.errors.RemoteEntryNotFoundError:
            return None
        return Path(path).read_text(encoding="utf-8")


def _read_answers(kept: Path) -> dict[str, str]:
    try:
        return KEPT.validate_json(kept.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise SubtuneError(
            f"{kept}: found something else, expected a commit (40 hexadecimal digits) for each "
            "repository and revision; correct or delete it"
        ) from None
