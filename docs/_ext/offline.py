"""Check that the site works offline: its pages load no script, style or image from other hosts."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

# Addresses that a browser loads by itself. Links are allowed, because they load only on a click.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\ssrc=["']?(?P<src>[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\srel=["']?[\w ]*(?:stylesheet|icon|preload|preconnect))"""
    r"""[^>]*?\shref=["']?(?P<href>[^"'\s>]+)"""
    r"""|url\(\s*["']?(?P<url>[^"')\s]+)|@import\s+["'](?P<import>[^"']+)"""
)
ELSEWHERE = re.compile(r"(?:\w+:)?//")


def fetched_from_elsewhere(text: str) -> list[str]:
    """Find the addresses on other hosts that a page or a stylesheet loads."""
    found = (match[match.lastgroup or 0] for match in FETCHED.finditer(text))
    return [address for address in found if ELSEWHERE.match(address)]


def of_site(site: Path) -> Iterator[str]:
    """Yield a warning for each address on another host that a page or stylesheet loads."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for address in dict.fromkeys(fetched_from_elsewhere(path.read_text())):
            yield f"{path.relative_to(site)}: loads {address}, expected a file of the site"


def warn(app: Sphinx, exception: Exception | None) -> None:
    """Log the warnings after the HTML build."""
    if exception is None and app.builder.format == "html":
        for line in of_site(Path(app.outdir)):
            logging.getLogger(__name__).warning(line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", warn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
