"""List the code blocks of README, CONTRIBUTING and docs, with their languages."""

import re
from collections.abc import Iterator
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
