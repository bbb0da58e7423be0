"""Apply the code blocks of CONTRIBUTING and docs/own-paper.md to a copy of the project."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.helpers.project import ROOT

BLOCK = re.compile(
    r"^`([^`]+)`(?:, (after `(?P<anchor>[^`]+)`|at the end))?:\n\n```\w*\n(?P<text>.*?)```$",
    re.MULTILINE | re.DOTALL,
)


class Change(NamedTuple):
    """Lines that a recipe adds to a file.

    They follow the line ``anchor``. If it is None, they are appended, or are the whole new file.
    """

    path: str
    anchor: str | None
    text: str


def recipes() -> dict[str, list[Change]]:
    """Return the changes of each recipe, by its heading."""
    pages = (ROOT / page for page in ("docs/own-paper.md", "CONTRIBUTING.md"))
    text = "\n".join(page.read_text() for page in pages)
    sections = re.split(r"^###? (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        heading: [Change(m[1], m["anchor"], m["text"]) for m in BLOCK.finditer(text)]
        for heading, text in zip(sections[::2], sections[1::2], strict=True)
    }


def apply(change: Change, directory: Path) -> None:
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
    """Copy the library and its tests, and apply all recipes in the order of the pages."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("*.pyc"))
    for changes in recipes().values():
        for change in changes:
            apply(change, directory)


def main() -> None:
    for heading, changes in recipes().items():
        if changes:
            lines = sum(len(change.text.splitlines()) for change in changes)
            files = len({change.path for change in changes})
            print(f"{heading}: {files} files, {lines} lines")


if __name__ == "__main__":
    main()
