"""Settings by the number of rows and the size of the model."""

import numpy as np
import pytest

from subtune.init.choosing import choices, learning_rates, token_counts, windows
from subtune.init.defaults import DEFAULTS
from subtune.selections.methods import METHODS
from subtune.tasks.task import KINDS


@pytest.mark.parametrize(("width", "nearest"), [(32, 384), (384, 384), (512, 384), (4096, 768)])
def test_learning_rates_are_those_of_the_nearest_width(width, nearest):
    by_width = {384: [1e-2, 1e-3], 768: [1e-4, 1e-5]}
    assert learning_rates(by_width, width) == tuple(by_width[nearest])


def test_fewer_rows_are_seen_more_often():
    numbers = (200, 1000, 2500, 20_000, 10**6)
    sizes = [next(choices(rows, [32], 384, ["full"], 5)) for rows in numbers]
    assert [size.epochs for size in sizes] == [20, 10, 5, 3, 2]
    assert [len(size.methods) * len(size.seeds) for size in sizes] == [5] * 5


def test_quicker_settings_have_fewer_epochs_then_fewer_methods_then_fewer_rows():
    found = [*choices(2000, [32], 384, DEFAULTS.methods, DEFAULTS.seeds)]
    assert [(s.train_rows, len(s.methods), s.epochs) for s in found] == [
        *((2000, 6, epochs) for epochs in (10, 10, 10, 9, 8, 7)),
        *((2000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 6, epochs) for epochs in (10, 9, 8, 7)),
        *((1000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 4, epochs) for epochs in (10, 9, 8, 7, 6, 5, 4, 3)),
    ]
    # Two methods of few parameters have more steps at first.
    longer = ["bitfit", "layernorm"]
    assert [dict(s.own_epochs) for s in found[:3]] == [
        dict.fromkeys(longer, 30),
        dict.fromkeys(longer, 20),
        {},
    ]
    assert not any(s.own_epochs for s in found[2:])
    assert {len(settings.seeds) for settings in found} == {5}
    # Small tables keep their rows.
    assert {settings.train_rows for settings in choices(50, [32], 384, ["full"], 3)} == {50}


def test_shorter_windows_are_tried_before_methods_are_dropped():
    found = [*choices(2000, [512, 256, 128, 64], 384, DEFAULTS.methods, DEFAULTS.seeds)]
    steps = [(s.train_rows, len(s.methods), s.max_length) for s in found]
    assert [*dict.fromkeys(steps)] == [
        *((2000, 6, window) for window in (512, 256, 128)),
        (2000, 5, 128),
        *((1000, methods, 128) for methods in (6, 5, 4)),
        # The shortest settings of all.
        (1000, 4, 64),
    ]
    # Few parameters have more epochs in the longest window alone.
    assert {settings.max_length for settings in found if settings.own_epochs} == {512}


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([1400] * 100, [512, 256, 128, 64]),
        ([200] * 100, [200, 128, 64]),
        ([130] * 100, [136, 128, 64]),
        ([64] * 100, [64]),
        # A shorter window saves no time where few texts are long.
        ([30] * 98 + [1400] * 2, [512]),
        ([90] * 50 + [300] * 50, [304, 128, 64]),
    ],
)
def test_windows_are_shorter_than_usual_texts(counts, found):
    assert windows(np.array(counts), longest=512) == found


def test_tokens_are_those_of_the_tokenizer_or_are_guessed(tiny_bert):
    texts = [("a b c d",), ("a",), ("",)]
    # Two special tokens around each text, and three guessed.
    assert token_counts(texts, tiny_bert)[[0, -1]].tolist() == [2, 6]
    assert token_counts(texts, None).tolist() == [3, 5, 9]
    assert token_counts([("a b", "c d")], None).tolist() == [9]


def test_what_is_written_is_known_to_the_library():
    assert set(DEFAULTS.methods) <= set(METHODS)
    for kind, metrics in DEFAULTS.metrics.items():
        known = KINDS[kind if kind in KINDS else "classification"].metrics
        assert set(metrics) <= set(known)
