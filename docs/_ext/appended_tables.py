"""Append tables that are made from other files of the repository to their pages."""

from pathlib import Path

import left_open
import licences
import settings
from sphinx.application import Sphinx
from tests.helpers import faults

from subtune import papers

# Maps a page to the function that makes its tables, and to the files that they are made from.
TABLES = {
    "configuration": (settings.tables, [settings.SCHEMA]),
    "dependencies": (licences.table, [licences.LOCK]),
    "left-open": (left_open.tables, [*Path(papers.__path__[0]).glob("*/choices.yaml")]),
    "reliability": (faults.fault_tables, [*faults.TESTS.rglob("test_*.py")]),
}


def append(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the tables to their page, which Sphinx reads again after one of the files changed."""
    if page in TABLES:
        tables, files = TABLES[page]
        for path in files:
            app.env.note_dependency(str(path))
        source[0] += "\n" + tables()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
