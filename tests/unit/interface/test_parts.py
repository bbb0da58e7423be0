"""The functions of Python that train without a workflow."""

import pytest

import subtune
from subtune.core.errors import SubtuneError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": -1}, "train: learning_rate: found -1, expected greater than 0"),
        ({"learning_rate": "x"}, "train: learning_rate: found 'x', expected a valid number"),
        ({"learning_rate": 1e-3, "epochs": 0}, "train: epochs: found 0, expected greater"),
    ],
)
def test_a_setting_that_cannot_be_names_itself(settings, message):
    with pytest.raises(SubtuneError, match=message):
        subtune.train(None, "train.csv", "dev.csv", "bitfit", **settings)
