"""Blocks of code in README, CONTRIBUTING and the pages of docs, with the language of each."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.helpers.project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Programs of indented blocks, which name no language.
SHELL = re.compile(r"(git|uvx?|pip|make|conda|apptainer|sbatch|subtune|\.venv/bin/\w+) \S")
PYTHON = re.compile(r"(import|from) \w+|\w+\(")
# Commands that need what tests lack, by their beginning.
NOT_RUN = {
    "git clone ": "the address of a repository",
    "git worktree ": "the repository's history",
    "apptainer build ": "Apptainer, and a network",
    ".venv/bin/hf ": "an account on the hub",
}


class Block(NamedTuple):
    """A block of code: its page, its first line there, its language, and its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines of a block of shell, without comments."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [line.partition(" # ")[0].strip() for line in lines]


def blocks() -> Iterator[Block]:
    """Yield all blocks; those of Sphinx, such as tables of contents, are left out."""
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
