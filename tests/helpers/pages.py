"""List the code blocks of README, CONTRIBUTING and docs, with their languages.

Some blocks of CONTRIBUTING and docs/own-paper.md are recipes, which are applied to a copy of the
project.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.helpers.project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Patterns that recognise the language of indented blocks, which name none.
PROGRAMS = "apptainer|conda|git|hf|make|pip|python|sbatch|snakemake|source|subtune|uv"
SHELL = re.compile(rf"({PROGRAMS}) \S")
PYTHON = re.compile(r"(import|from) \w+|\w+\(")
# Commands that tests cannot run: how they begin, and what they need.
NOT_RUN = {
    "git clone ": "the address of a repository",
    "git worktree ": "the repository's history",
    "apptainer build ": "Apptainer, and a network",
    "hf ": "an account on the hub",
    "source ": "the reader's shell",
    "uv ": "torch's own index",
}
# A block that is preceded by the file to which its lines are added.
RECIPE = re.compile(
    r"^`([^`]+)`(?:, (after `(?P<anchor>[^`]+)`|at the end))?:\n\n```\w*\n(?P<text>.*?)```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A code block, with its page and the number of its first line."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Return the commands of a shell block, without comments."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [line.partition(" # ")[0].strip() for line in lines]


def blocks() -> Iterator[Block]:
    """Yield all code blocks except Sphinx directives, such as tables of contents."""
    for page in PAGES:
        for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
            if token.type in ("fence", "code_block") and not token.info.startswith("{"):
                assert token.map
                language = token.info or _guess_language(token.content)
                name = page.relative_to(ROOT).as_posix()
                yield Block(name, token.map[0] + 1, language, token.content)


def _guess_language(text: str) -> str:
    if SHELL.match(text):
        return "shell"
    return "python" if PYTHON.match(text) else "text"


class Change(NamedTuple):
    """Lines that a recipe adds to a file.

    They follow the line ``anchor``. If it is None, they are appended, or are the whole new file.
    """

    path: str
    anchor: str | None
    text: str


def recipes() -> list[Change]:
    """List the changes of all recipes, in the order of the pages."""
    pages = (ROOT / page for page in ("docs/own-paper.md", "CONTRIBUTING.md"))
    text = "\n".join(page.read_text() for page in pages)
    return [Change(m[1], m["anchor"], m["text"]) for m in RECIPE.finditer(text)]


def _apply(change: Change, directory: Path) -> None:
    """Apply a change to a copy of the repository.

    Raises:
        AssertionError: the anchor is not one line of the file.
    """
    path = directory / change.path
    if change.anchor is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ""
        path.write_text(before + change.text)
        return
    lines = path.read_text().splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if line == change.anchor + "\n"]
    assert len(places) == 1, f"{change.path}: {change.anchor!r} is there {len(places)} times"
    lines.insert(places[0] + 1, change.text)
    path.write_text("".join(lines))


def copy_with_all(directory: Path) -> None:
    """Copy the library and its tests, and apply all recipes."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("*.pyc"))
    for change in recipes():
        _apply(change, directory)
