"""The site shows without a network: its pages take no script, style or picture from elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

# What a browser fetches by itself; where a link leads is the reader's choice.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\ssrc=["']?(?P<src>[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\srel=["']?[\w ]*(?:stylesheet|icon|preload|preconnect))"""
    r"""[^>]*?\shref=["']?(?P<href>[^"'\s>]+)"""
    r"""|url\(\s*["']?(?P<url>[^"')\s]+)|@import\s+["'](?P<import>[^"']+)"""
)
ELSEWHERE = re.compile(r"(?:\w+:)?//")


def fetched_from_elsewhere(text: str) -> list[str]:
    """The addresses of other hosts from which a page or a style takes something."""
    found = (match[match.lastgroup or 0] for match in FETCHED.finditer(text))
    return [address for address in found if ELSEWHERE.match(address)]


def of_site(site: Path) -> Iterator[str]:
    """A line for each page and style that takes something from elsewhere."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for address in dict.fromkeys(fetched_from_elsewhere(path.read_text())):
            yield f"{path.relative_to(site)}: found {address}, expected a file of the site"


def warn(app: Sphinx, exception: Exception | None) -> None:
    """Called when the site is written."""
    if exception is None and app.builder.format == "html":
        for line in of_site(Path(app.outdir)):
            logging.getLogger(__name__).warning(line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", warn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
