"""A page of the reference for each package, written before Sphinx reads its sources."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LIBRARY = Path(__file__).parents[2] / "src" / "subtune"


def modules_in(folder: Path) -> Iterator[Path]:
    """A package's own modules, in order of their names."""
    yield from sorted(path for path in folder.glob("*.py") if not path.stem.startswith("__"))


def packages(library: Path = LIBRARY) -> dict[str, Path]:
    """Every package that has a docstring or modules, by its dotted name, outermost first."""
    folders = sorted(path.parent for path in library.rglob("__init__.py"))
    return {
        ".".join(folder.relative_to(library.parent).parts): folder
        for folder in folders
        if summary_of(folder) or any(modules_in(folder))
    }


def summary_of(folder: Path) -> str:
    """The first line of a package's docstring."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    return (docstring or "").partition("\n")[0]


def page_of(package: str, folder: Path) -> str:
    """A package's page: what it says of itself, and a section for each of its modules."""
    sections = [f"# {package}\n\n{automodule(package)}"]
    for path in modules_in(folder):
        sections.append(f"## {path.stem}\n\n{automodule(f'{package}.{path.stem}')}")
    return "\n".join(sections)


def automodule(name: str) -> str:
    """What Sphinx reads from a module's docstrings."""
    return f"```{{eval-rst}}\n.. automodule:: {name}\n```\n"


def index_of(summaries: dict[str, str]) -> str:
    """The reference's first page: every package in one line."""
    lines = [f"* [{name}]({name}.md): {summary}" for name, summary in summaries.items()]
    contents = ["```{toctree}", ":hidden:", "", *summaries, "```"]
    return "\n".join(["# Library", "", *lines, "", *contents, ""])


def write(app: Sphinx) -> None:
    """Write what has changed, so that Sphinx reads no more than that again."""
    folders = packages()
    pages = {name: page_of(name, folder) for name, folder in folders.items()}
    pages["index"] = index_of({name: summary_of(folder) for name, folder in folders.items()})
    target = Path(app.srcdir) / "api"
    target.mkdir(exist_ok=True)
    for old in target.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = target / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    # What is imported here is shared by the processes that read pages side by side.
    if app.parallel > 1:
        for name, folder in folders.items():
            for path in modules_in(folder):
                importlib.import_module(f"{name}.{path.stem}")


def escape_bars(
    app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    """Between bars docstrings have an absolute value, and reStructuredText a substitution."""
    for number, line in enumerate(lines):
        # What is indented may be a layout, which is shown as it is written.
        if not line.startswith(" "):
            lines[number] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    # Napoleon has read the docstring by then.
    app.connect("autodoc-process-docstring", escape_bars, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
