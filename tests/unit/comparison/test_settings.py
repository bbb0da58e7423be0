"""Settings by the number of rows and the model's size."""

import numpy as np
import pytest

from subtune.comparison import DEFAULTS
from subtune.comparison.settings import list_settings, possible_windows
from subtune.methods.names import METHODS
from subtune.tasks.task import KINDS


@pytest.mark.parametrize(("width", "nearest"), [(32, 384), (384, 384), (512, 384), (4096, 768)])
def test_learning_rates_are_those_of_the_nearest_width(width, nearest):
    rates = list_settings(200, [32], width, ["full"], 5)[0].methods["full"]
    assert rates == tuple(DEFAULTS.methods["full"]["learning_rates"][nearest])


@pytest.mark.parametrize(("rows", "size"), [(100, 8), (250, 16), (480, 32), (2000, 32)])
def test_batches_are_larger_if_that_is_quicker_and_leaves_enough_steps(rows, size):
    assert list_settings(rows, [32], 384, ["full"], 5, least_batch=32)[0].batch_size == size


def test_fewer_rows_are_seen_more_often():
    numbers = (200, 1000, 2500, 20_000, 10**6)
    sizes = [list_settings(rows, [32], 384, ["full"], 5)[0] for rows in numbers]
    assert [size.epochs for size in sizes] == [20, 10, 5, 3, 2]


def test_quicker_settings_have_fewer_epochs_then_fewer_methods_then_fewer_rows():
    found = list_settings(2000, [32], 384, DEFAULTS.methods, DEFAULTS.seeds)
    assert [(s.train_rows, len(s.methods), s.epochs) for s in found] == [
        *((2000, 6, epochs) for epochs in (10, 10, 10, 9, 8, 7)),
        *((2000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 6, epochs) for epochs in (10, 9, 8, 7)),
        *((1000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 4, epochs) for epochs in (10, 9, 8, 7, 6, 5, 4, 3)),
        *((250, 3, epochs) for epochs in range(20, 5, -1)),
    ]
    # The last ones search no learning rates.
    assert [*found[-1].methods.values()] == [(1e-4,), (4e-3,), ()]
    assert [len(rates) for rates in found[-16].methods.values()] == [3, 3, 3, 0]
    # Two methods of few parameters have more steps in the first settings.
    longer = ["bitfit", "layernorm"]
    own_epochs = [dict(settings.own_epochs) for settings in found]
    assert own_epochs[:2] == [dict.fromkeys(longer, 30), dict.fromkeys(longer, 20)]
    assert not any(own_epochs[2:])
    assert {len(settings.seeds) for settings in found} == {5}
    # Small tables keep their rows.
    assert {settings.train_rows for settings in list_settings(50, [32], 384, ["full"], 3)} == {50}


def test_shorter_windows_are_tried_before_methods_are_dropped():
    found = list_settings(2000, [512, 256, 128, 64], 384, DEFAULTS.methods, DEFAULTS.seeds)
    steps = [(s.train_rows, len(s.methods), s.max_length) for s in found]
    assert [*dict.fromkeys(steps)] == [
        *((2000, 6, window) for window in (512, 256, 128)),
        (2000, 5, 128),
        *((1000, methods, 128) for methods in (6, 5, 4)),
        # The shortest settings of all.
        (1000, 4, 64),
        (250, 3, 64),
    ]
    # Methods of few parameters have more epochs only with the longest window.
    assert {settings.max_length for settings in found if settings.own_epochs} == {512}


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([1400] * 100, [512, 256, 128, 64]),
        ([200] * 100, [200, 128, 64]),
        ([130] * 100, [136, 128, 64]),
        ([64] * 100, [64]),
        # If few texts are long, a shorter window saves no time.
        ([30] * 98 + [1400] * 2, [512]),
        ([90] * 50 + [300] * 50, [304, 128, 64]),
    ],
)
def test_windows_are_shorter_than_usual_texts(counts, found):
    assert possible_windows(np.array(counts), longest=512) == found


def test_the_library_knows_the_defaults():
    assert set(DEFAULTS.methods) <= set(METHODS)
    for kind, metrics in DEFAULTS.metrics.items():
        known = KINDS[kind if kind in KINDS else "classification"].metrics
        assert set(metrics) <= set(known)
