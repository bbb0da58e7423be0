"""List the licences of all pinned packages in a Markdown table."""

from importlib.metadata import Distribution, distribution
from pathlib import Path

LOCK = Path(__file__).parents[2] / "requirements.lock"
# The prefix of licence classifiers.
CLASSIFIER = "License :: "
LONGEST_NAME = 60


def table() -> str:
    """Format the table, with a row per pinned package."""
    rows = ["| package | version | licence |", "|---|---|---|"]
    for name, version in pins().items():
        rows.append(f"| {name} | {version} | {licence_of(distribution(name))} |")
    return "\n".join(rows)


def pins() -> dict[str, str]:
    """Read the pinned version of each package."""
    lines = LOCK.read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def licence_of(package: Distribution) -> str:
    """Read the licence from a package's metadata: SPDX expression, classifiers, or a short text."""
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
        return ", ".join(names) or "not in its metadata"
    return line
