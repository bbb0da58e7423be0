"""Splits on disk, as one job writes them and others read them."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.data import load
from subtune.tasks import TASKS
from tests.helpers import examples


@pytest.mark.parametrize("name", ["data-00000-of-00001.arrow", "dataset_info.json", "state.json"])
@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) // 2], lambda content: b"[]"],
    ids=["cut", "another"],
)
def test_a_directory_with_a_damaged_file_is_named_with_what_to_do(tmp_path, name, damage):
    stored = tmp_path / "stored"
    examples.rows_of(TASKS["sst2"]).save_to_disk(stored)
    path = stored / "train" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SubtuneError) as error:
        load.read(stored)
    assert str(error.value).startswith(f"{stored} is damaged; delete it, and call snakemake again")
    assert "\n" not in str(error.value)
