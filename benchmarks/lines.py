"""Measurements as lines of JSON, which are stored as soon as they are known."""

import json
from pathlib import Path
from typing import Any


class Lines:
    """A new file of JSON lines, which keeps the measurements of a benchmark that is interrupted."""

    def __init__(self, path: Path):
        self._path = path
        path.write_text("")

    def add(self, row: dict[str, Any]) -> None:
        """Print a row and append it to the file. Numbers keep five digits."""
        line = json.dumps({name: _short(value) for name, value in row.items()})
        print(line, flush=True)
        with self._path.open("a") as file:
            file.write(line + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, in the order in which they were added."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
