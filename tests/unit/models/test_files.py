"""A model's files, on their way to where jobs read them."""

import shutil

import pytest

from subtune.errors import SubtuneError
from subtune.models import files
from subtune.specs import ModelSpec


@pytest.fixture
def directory(tmp_path, tiny_bert):
    """A copy of a model that a test may change."""
    return shutil.copytree(tiny_bert, tmp_path / "mine")


def test_a_local_model_is_copied_as_it_was_planned(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    files.fetch(spec, str(directory), tmp_path / "copy")
    assert files.version_of(tmp_path / "copy") == spec.version


def test_a_local_model_that_was_edited_after_planning_is_refused(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    path = directory / "config.json"
    path.write_text(path.read_text().replace("{", '{"note": "edited", ', 1))
    with pytest.raises(SubtuneError, match=r"mine: changed since this was planned; call snakemake"):
        files.fetch(spec, str(directory), tmp_path / "copy")
