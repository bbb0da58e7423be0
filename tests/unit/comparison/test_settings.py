"""The model of a name, and settings by the number of rows and the model's size."""

import numpy as np
import pytest

from subtune.comparison import DEFAULTS, settings
from subtune.comparison.settings import find_starting_model, list_experiments, possible_windows
from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.tasks import TASKS
from subtune.tasks.task import KINDS

FIXED = {"models": ["a model"], "tasks": ["a task"]}


def test_the_default_model_is_the_package_that_is_here():
    model = find_starting_model(None)
    reference = DEFAULTS.model["package"]
    assert (model.source, model.reference, model.name) == ("package", reference, "minilm")
    assert (model.hidden_size, model.longest_text) == (384, 512)


def test_without_the_package_the_default_is_the_same_model_on_the_hub(monkeypatch):
    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: None)
    model = find_starting_model(None)
    assert (model.source, model.reference, model.name) == ("hub", DEFAULTS.model["hub"], "minilm")
    assert (model.hidden_size, model.directory, model.dimensions) == (384, None, None)


@pytest.mark.parametrize(
    ("called", "reference", "name", "width"),
    [
        ("bert-base-cased", "google-bert/bert-base-cased", "bert-base-cased", 768),
        ("google-bert/bert-large-cased", "google-bert/bert-large-cased", "bert-large-cased", 1024),
        ("someone/bert-base-cased", "someone/bert-base-cased", "bert-base-cased", 768),
    ],
)
def test_a_name_that_is_no_directory_and_no_package_is_the_hubs(called, reference, name, width):
    model = find_starting_model(called)
    assert (model.source, model.reference, model.name) == ("hub", reference, name)
    assert model.hidden_size == width


def test_a_directory_is_a_local_model(tiny_bert):
    model = find_starting_model(str(tiny_bert))
    assert (model.source, model.directory, model.hidden_size) == ("path", tiny_bert, 32)
    assert model.longest_text == 64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/directory", "found '/no/such/directory', expected an existing"),
        ("json", "package 'json' holds 0 model.safetensors, expected one"),
    ],
)
def test_a_name_that_is_no_model_is_refused(name, message):
    with pytest.raises(SubtuneError, match=f"--model: {message}"):
        find_starting_model(name)


@pytest.mark.parametrize(("family", "lacking"), [("llama", {"bitfit"}), ("distilbert", set())])
def test_methods_that_select_missing_parameters_are_known(directory_of, family, lacking):
    model = find_starting_model(str(directory_of(family)))
    assert {*model.problems_by_method(DEFAULTS.methods, TASKS["sst2"])} == lacking


def test_tokens_are_those_of_the_tokenizer_or_are_guessed(tiny_bert):
    texts = [("a b c d",), ("a",), ("",)]
    here, on_hub = find_starting_model(str(tiny_bert)), find_starting_model("someone/bert")
    # Two special tokens around each text, and three guessed tokens.
    assert here.token_counts(texts)[0][[0, -1]].tolist() == [2, 6]
    assert on_hub.token_counts(texts)[0].tolist() == [3, 5, 9]
    assert on_hub.token_counts([("a b", "c d")])[0].tolist() == [9]


@pytest.mark.parametrize(("width", "nearest"), [(32, 384), (384, 384), (512, 384), (4096, 768)])
def test_learning_rates_are_those_of_the_nearest_width(width, nearest):
    rates = list_experiments(200, [32], width, ["full"], FIXED)[0].methods["full"]
    assert rates.search == tuple(DEFAULTS.methods["full"]["learning_rates"][nearest])


@pytest.mark.parametrize(("rows", "size"), [(100, 8), (250, 16), (480, 32), (2000, 32)])
def test_batches_are_larger_if_that_is_quicker_and_leaves_enough_steps(rows, size):
    assert list_experiments(rows, [32], 384, ["full"], FIXED, 32)[0].batch_size == size


def test_fewer_rows_are_seen_more_often():
    numbers = (200, 1000, 2500, 20_000, 10**6)
    sizes = [list_experiments(rows, [32], 384, ["full"], FIXED)[0] for rows in numbers]
    assert [size.epochs for size in sizes] == [20, 10, 5, 3, 2]


def test_quicker_settings_have_fewer_epochs_then_fewer_methods_then_fewer_rows():
    found = list_experiments(2000, [32], 384, DEFAULTS.methods, FIXED)
    assert [(*s.list_row_numbers(2000), len(s.methods), s.epochs) for s in found] == [
        *((2000, 6, epochs) for epochs in (10, 10, 10, 9, 8, 7)),
        *((2000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 6, epochs) for epochs in (10, 9, 8, 7)),
        *((1000, 5, epochs) for epochs in (10, 9, 8, 7, 6, 5)),
        *((1000, 4, epochs) for epochs in (10, 9, 8, 7, 6, 5, 4, 3)),
        *((250, 3, epochs) for epochs in range(20, 5, -1)),
    ]
    # The last ones search no learning rates.
    assert [*found[-1].methods.values()] == [(1e-4,), (4e-3,), None]
    *searched, embeddings = found[-16].methods.values()
    assert ([len(rates.search) for rates in searched], embeddings) == ([3, 3, 3], None)
    # Two methods of few parameters have more steps in the first settings.
    longer = ["bitfit", "layernorm"]
    own_epochs = [
        {method: own.epochs for method, own in settings.by_method.items()} for settings in found
    ]
    assert own_epochs[:2] == [dict.fromkeys(longer, 30), dict.fromkeys(longer, 20)]
    assert not any(own_epochs[2:])
    assert {len(settings.seeds) for settings in found} == {5}
    # Small tables keep their rows.
    small = list_experiments(50, [32], 384, ["full"], FIXED)
    assert {settings.train_rows for settings in small} == {("all",)}


def test_shorter_windows_are_tried_before_methods_are_dropped():
    found = list_experiments(2000, [512, 256, 128, 64], 384, DEFAULTS.methods, FIXED)
    steps = [(*s.list_row_numbers(2000), len(s.methods), s.max_length) for s in found]
    assert [*dict.fromkeys(steps)] == [
        *((2000, 6, window) for window in (512, 256, 128)),
        (2000, 5, 128),
        *((1000, methods, 128) for methods in (6, 5, 4)),
        # The shortest settings of all.
        (1000, 4, 64),
        (250, 3, 64),
    ]
    # Methods of few parameters have more epochs only with the longest window.
    assert {settings.max_length for settings in found if settings.by_method} == {512}


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
