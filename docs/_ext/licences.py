"""The licences of everything that is installed to work on the project, as a table in Markdown."""

from importlib.metadata import Distribution, distribution
from pathlib import Path

from sphinx.application import Sphinx

LOCK = Path(__file__).parents[2] / "requirements.lock"
# The page that ends with it.
PAGE = "dependencies"
# A classifier of a licence has its name behind this.
CLASSIFIER = "License :: "
LONGEST_NAME = 60


def table(lock: Path) -> str:
    """A row for every package that the lock pins."""
    rows = ["| package | version | licence |", "|---|---|---|"]
    for name, version in pins(lock).items():
        rows.append(f"| {name} | {version} | {licence_of(distribution(name))} |")
    return "\n".join(rows)


def pins(lock: Path) -> dict[str, str]:
    """Each package's version."""
    lines = lock.read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def licence_of(package: Distribution) -> str:
    """What a package says of itself: an expression, its classifiers, or a line of its own."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    names = [
        classifier.removeprefix(CLASSIFIER).removeprefix("OSI Approved :: ")
        for classifier in metadata.get_all("Classifier", [])
        if classifier.startswith(CLASSIFIER)
    ]
    line = metadata["License"].strip().partition("\n")[0] if "License" in metadata else ""
    if names or not line or len(line) > LONGEST_NAME:
        return ", ".join(names) or "not said in its metadata"
    return line


def append(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the page its table."""
    if page == PAGE:
        app.env.note_dependency(str(LOCK))
        source[0] += "\n" + table(LOCK)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
