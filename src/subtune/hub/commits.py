"""Facts about the hub's repositories, such as commits: asked for once, and kept with the results.

Later plans are therefore the same, with or without a network, and a branch that has moved retrains
nothing. To get its newer commit, delete its line in the file.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal
from uuid import uuid4

from pydantic import Field, TypeAdapter, ValidationError

from subtune.core.errors import SubtuneError
from subtune.hub.download import asking_the_hub

GLUE = "nyu-mll/glue"
SQUAD = "rajpurkar/squad"
UNIVERSAL_DEPENDENCIES = "universal-dependencies/universal_dependencies"
# Commits to take if a configuration names no revision. Other repositories have `main`.
COMMITS = {
    GLUE: "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
    SQUAD: "7b6d24c440a36b6815f21b70d25016731768db1f",
    # On the branch `refs/convert/parquet`.
    UNIVERSAL_DEPENDENCIES: "bc04fa5dd6c03bcb03355f289f2ce385fecc7250",
    "google-bert/bert-base-cased": "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
    "google-bert/bert-large-cased": "06fa25dc1b6e034e91607fd67c247051ccaeff65",
    "FacebookAI/roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
}
SECONDS_TO_ANSWER = 20
COMMIT = re.compile(r"^[0-9a-f]{40}$")
# Answers are commits and poolings.
KEPT = TypeAdapter(dict[str, Annotated[str, Field(pattern=r"^([0-9a-f]{40}|first|mean)$")]])


def pinned(
    repository: str,
    revision: str | None,
    repo_type: Literal["model", "dataset"],
    kept: Path,
    key: str,
) -> str:
    """Return the commit of a revision of a repository.

    A revision is a commit, tag or branch; without one, it is the repository's in `COMMITS`, or
    `main`. The file ``kept`` has the commits that were asked for before. ``key`` is the key of the
    configuration, with which an error message begins.

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
        advice = "name a commit (40 hexadecimal digits), or call once where there is a network"
        with asking_the_hub(problem, advice):
            about = huggingface_hub.HfApi().repo_info(
                repository, repo_type=repo_type, revision=revision, timeout=SECONDS_TO_ANSWER
            )
        return str(about.sha)

    return remembered(kept, f"{repository}@{revision}", ask)


def remembered(kept: Path, question: str, ask: Callable[[], str]) -> str:
    """Return the answer to a question: the one that the file ``kept`` has, or a new one.

    Raises:
        SubtuneError: the file cannot be read or written.
    """
    answers = _read(kept)
    if question not in answers:
        # Another plan may have written the file meanwhile.
        answers = {question: ask()} | _read(kept)
        _write(kept, answers)
    return answers[question]


def file_at(repository: str, commit: str, key: str, name: str) -> str | None:
    """Return the text of a file of a model's repository, or None if it has no such file.

    ``key`` is the key of the configuration that answers instead.

    Raises:
        SubtuneError: the hub cannot be asked.
    """
    import huggingface_hub

    problem = f"{key}: missing, and could not ask the hub for {name} of {repository} at {commit}"
    with asking_the_hub(problem, "write it, or call once where there is a network"):
        try:
            path = huggingface_hub.hf_hub_download(repository, name, revision=commit)
        except huggingface_hub.errors.RemoteEntryNotFoundError:
            return None
        return Path(path).read_text(encoding="utf-8")


def _read(kept: Path) -> dict[str, str]:
    try:
        return KEPT.validate_json(kept.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise SubtuneError(
            f"{kept}: found something else than a commit (40 hexadecimal digits) for each "
            "repository and revision; mend or delete it"
        ) from None


def _write(kept: Path, commits: dict[str, str]) -> None:
    draft = kept.with_name(f".{kept.name}.{uuid4().hex}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(commits, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        draft.replace(kept)
    except OSError as error:
        raise SubtuneError(f"cannot write {kept}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
