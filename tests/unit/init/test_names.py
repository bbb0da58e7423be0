"""Names that configurations take, by names of files."""

from pathlib import Path

import pytest

from subtune.init.tables import named_like, task_named_after


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("reviews-train.csv", "reviews"),
        ("reviews.train.jsonl", "reviews"),
        ("restrain.csv", "restrain"),
        ("my films/train.csv", "my-films"),
        ("größe & Güte TRAIN.csv", "groe-Gute"),
        ("критика.csv", "my-task"),
        ("rte-train.csv", "rte-task"),
        ("score.csv", "score-task"),
        (f"{'long' * 40}.csv", "long" * 14),
    ],
)
def test_a_task_is_called_as_its_file_where_that_is_a_name_and_free(tmp_path, path, name):
    assert task_named_after(tmp_path / Path(path)) == name


def test_a_name_that_is_taken_says_what_it_is_of():
    assert named_like("bert-base-cased", ["bert-base-cased"], "model") == "bert-base-cased-model"
