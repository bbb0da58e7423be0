"""The page of what can go wrong names tests that are there."""

import re

from tests.helpers.project import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = re.findall(r"^\| (?!what goes wrong)([^|]+) \| ([^|]+) \| `([^|]+)` \|$", PAGE, re.M)


def test_every_row_names_a_test_that_is_there_and_no_row_is_twice():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(ROWS) >= 60 and len(ROWS) == len(lines) - PAGE.count("| what goes wrong")
    names = [name for *_, name in ROWS]
    assert len(names) == len(set(names))
    missing = [
        f"{path}::{function}"
        for path, _, function in (name.partition("::") for name in names)
        if f"def {function}(" not in (ROOT / "tests" / path).read_text()
    ]
    assert not missing
