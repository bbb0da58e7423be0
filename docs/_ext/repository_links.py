"""Links between files of the repository, as they are to be on the site.

Pages link to each other and to files as they lie in the repository. On the site such a link leads
to the page that is made of the file, or gives the file where it is no page.
"""

import os.path
import re
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

# What lies outside docs/ and is a page of the site all the same.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<=\]\()(?!\w+:)(?P<path>[^)#\s]+)")


def on_the_site(text: str, folder: str) -> str:
    """A file's text with its links as a page in ``docs`` has them.

    ``folder`` is where the file lies, from the repository's root.
    """

    def link(match: re.Match) -> str:
        path = os.path.normpath(PurePosixPath(folder, match["path"]))
        return PAGES.get(path) or os.path.relpath(path, "docs")

    return LINK.sub(link, text)


def of_page(app: Sphinx, page: str, source: list[str]) -> None:
    """The pages that lie in ``docs``."""
    if "/" not in page:
        source[0] = on_the_site(source[0], "docs")


def of_included(app: Sphinx, path: Path, page: str, content: list[str]) -> None:
    """What they include, whose path is given from ``docs``."""
    content[0] = on_the_site(content[0], str(PurePosixPath("docs", path).parent))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", of_page)
    app.connect("include-read", of_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
