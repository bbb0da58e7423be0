"""Files that change between planning and reading."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.data import files
from subtune.selections.specs import DataSpec
from subtune.tasks import Task

TASK = Task(name="mood", title="Mood", text=("text",), labels=("sad", "happy"), metrics=("f1",))


@pytest.fixture
def paths(tmp_path):
    """A training and an evaluation file."""
    for split in ("train", "validation"):
        (tmp_path / f"{split}.csv").write_text(f"text,label\n{split},happy\n")
    return {split: str(tmp_path / f"{split}.csv") for split in ("train", "validation")}


@pytest.fixture
def spec(paths):
    version = files.version_of(files.own_paths(paths, TASK))
    return DataSpec(task=TASK, source="files", version=version)


def require(spec, paths):
    files.require_version(spec, files.paths_of(TASK, "files", spec.splits, files=paths))


def test_rows_of_a_file_that_was_edited_after_planning_are_refused_in_one_line(spec, paths):
    require(spec, paths)
    with open(paths["train"], "a") as file:
        file.write("more,sad\n")
    with pytest.raises(SubtuneError) as error:
        require(spec, paths)
    assert str(error.value).endswith("changed since this was planned; call snakemake again")
    assert paths["train"] in str(error.value) and len(str(error.value).splitlines()) == 1


def test_a_file_that_is_gone_is_named(spec, paths, tmp_path):
    (tmp_path / "train.csv").unlink()
    with pytest.raises(SubtuneError, match=r"files\.train: found no file"):
        require(spec, paths)


def test_a_file_that_cannot_be_read_is_named_when_work_is_planned(paths, tmp_path):
    with pytest.raises(SubtuneError) as raised:
        files.version_of(paths | {"train": (tmp_path,)})
    assert str(raised.value) == f"{tmp_path}: is a directory, expected a file to read"
