"""The page of what can go wrong names tests that are there."""

import re

import pytest

from tests.helpers.project import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = re.findall(r"^\| (?!what goes wrong)([^|]+) \| ([^|]+) \| `([^|]+)` \|$", PAGE, re.M)


def test_the_page_has_a_row_for_every_fault():
    assert len(ROWS) >= 60
    assert len(ROWS) == len([line for line in PAGE.splitlines() if line.startswith("| ")]) - len(
        re.findall(r"^\| what goes wrong", PAGE, re.M)
    )


@pytest.mark.parametrize("name", [name for *_, name in ROWS])
def test_a_row_names_a_test_that_is_there(name):
    path, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / "tests" / path).read_text()


def test_no_row_is_twice():
    names = [name for *_, name in ROWS]
    assert len(names) == len(set(names))
