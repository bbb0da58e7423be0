"""Write a page of the API reference for each package, before Sphinx reads the sources."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LIBRARY = Path(__file__).parents[2] / "src" / "subtune"


def modules_in(folder: Path) -> Iterator[Path]:
    """Yield the modules directly in a package, sorted by name."""
    yield from sorted(path for path in folder.glob("*.py") if not path.stem.startswith("__"))


def packages(library: Path = LIBRARY) -> dict[str, Path]:
    """Find all packages with a docstring or modules: folders by dotted name, outermost first."""
    folders = sorted(path.parent for path in library.rglob("__init__.py"))
    return {
        ".".join(folder.relative_to(library.parent).parts): folder
        for folder in folders
        if summary_of(folder) or any(modules_in(folder))
    }


def summary_of(folder: Path) -> str:
    """Return the first line of a package's docstring."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    return (docstring or "").partition("\n")[0]


def page_of(package: str, folder: Path) -> str:
    """Format the page of a package: its docstring, and a section per module."""
    sections = [f"# {package}\n\n{automodule(package)}"]
    for path in modules_in(folder):
        sections.append(f"## {path.stem}\n\n{automodule(f'{package}.{path.stem}')}")
    return "\n".join(sections)


def automodule(name: str) -> str:
    """Format the directive with which Sphinx documents a module."""
    return f"```{{eval-rst}}\n.. automodule:: {name}\n```\n"


def index_of(summaries: dict[str, str]) -> str:
    """Format the first page of the reference, with one line per package."""
    lines = [f"* [{name}]({name}.md): {summary}" for name, summary in summaries.items()]
    contents = ["```{toctree}", ":hidden:", "", *summaries, "```"]
    return "\n".join(["# Library", "", *lines, "", *contents, ""])


def write(app: Sphinx) -> None:
    """Write only pages that have changed, so that Sphinx does not read the others again."""
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
    # Import all modules once, before Sphinx forks the processes that read pages in parallel.
    if app.parallel > 1:
        for name, folder in folders.items():
            for path in modules_in(folder):
                importlib.import_module(f"{name}.{path.stem}")


def escape_bars(
    app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    """Escape ``|``, which means an absolute value in docstrings but a substitution in reST."""
    for number, line in enumerate(lines):
        # Indented lines may be literal blocks, in which backslashes would be visible.
        if not line.startswith(" "):
            lines[number] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", write)
    # A later priority than that of Napoleon, which parses the docstring first.
    app.connect("autodoc-process-docstring", escape_bars, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
