"""Stand-ins for packages that are absent where Snakemake plans."""

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from subtune.core import absent_packages as absent
from tests.helpers.messages import refused


@pytest.fixture(autouse=True)
def package(monkeypatch):
    monkeypatch.setattr(absent, "PLANNING_PACKAGES", ("math", "no_such_package"))


def test_an_absent_package_may_be_imported_and_stand_in_annotations():
    with absent.absent_packages():
        part = import_module("no_such_package.part")
        assert isinstance(part.Table | None, absent.Absent) and part.Table[int]
        with pytest.raises(ValueError, match="another"):
            try:
                raise ValueError("another")
            except part.SomeError:
                pass


def test_using_it_is_refused_with_its_name():
    with absent.absent_packages():
        part = import_module("no_such_package.part")
    with refused("no_such_package: ", "no_such_package.part.read"):
        part.read("a file")


def test_after_the_block_it_is_absent_again_and_other_packages_stay():
    with absent.absent_packages():
        import_module("no_such_package")
        assert import_module("math").sqrt(4) == 2
    assert find_spec("no_such_package") is None and "no_such_package" not in sys.modules
    assert "math" in sys.modules
