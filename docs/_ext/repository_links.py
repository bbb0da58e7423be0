"""Rewrite links between files of the repository into links of the site.

Pages link to files by their paths in the repository. On the site, such a link leads to the page of
the file, or downloads the file if it has no page.
"""

import os.path
import re
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

# Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<=\]\()(?!\w+:)(?P<path>[^)#\s]+)")


def on_the_site(text: str, folder: str) -> str:
    """Rewrite the links in the text of a file, for a page in ``docs``.

    ``folder`` is the folder of the file, relative to the root of the repository.
    """

    def link(match: re.Match) -> str:
        path = os.path.normpath(PurePosixPath(folder, match["path"]))
        return PAGES.get(path) or os.path.relpath(path, "docs")

    return LINK.sub(link, text)


def of_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Rewrite the links of a page in ``docs``."""
    if "/" not in page:
        source[0] = on_the_site(source[0], "docs")


def of_included(app: Sphinx, path: Path, page: str, content: list[str]) -> None:
    """Rewrite the links of an included file, whose path is relative to ``docs``."""
    content[0] = on_the_site(content[0], str(PurePosixPath("docs", path).parent))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", of_page)
    app.connect("include-read", of_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
