"""The model of a name, and settings by the number of rows and the model's size."""

import shutil
from itertools import permutations

import numpy as np
import pytest

from subtune.comparison import DEFAULTS, settings
from subtune.comparison.settings import (
    bound_total_seconds,
    choose_max_lengths,
    find_starting_model,
    find_starting_models,
    list_choices,
    nearest_learning_rates,
)
from subtune.config.fields import SearchOfRates
from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.tasks import TASKS
from subtune.tasks.task import KINDS

FIXED = {"models": ["a model"], "tasks": ["a task"]}


@pytest.mark.parametrize(
    ("called", "reference", "name", "width"),
    [
        (None, DEFAULTS.model["package"], "minilm", 384),
        ("bert-base-cased", "google-bert/bert-base-cased", "bert-base-cased", 768),
        ("google-bert/bert-large-cased", "google-bert/bert-large-cased", "bert-large-cased", 1024),
        ("someone/bert-base-cased", "someone/bert-base-cased", "bert-base-cased", 768),
    ],
)
def test_a_name_that_is_no_directory_and_no_package_is_the_hubs(called, reference, name, width):
    model = find_starting_model(called)
    assert (model.source, model.reference) == ("hub" if called else "package", reference)
    assert (model.name, model.hidden_size, model.longest_text) == (name, width, 512)


def test_without_the_package_the_default_is_the_same_model_on_the_hub(monkeypatch):
    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: None)
    model = find_starting_model(None)
    assert (model.source, model.reference, model.name) == ("hub", DEFAULTS.model["hub"], "minilm")
    assert (model.hidden_size, model.directory, model.dimensions) == (384, None, None)


def test_a_directory_is_a_local_model(tiny_bert):
    model = find_starting_model(str(tiny_bert))
    assert (model.source, model.directory) == ("path", tiny_bert)
    assert (model.hidden_size, model.longest_text) == (32, 64)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/directory", "found '/no/such/directory', expected an existing"),
        ("json", "package 'json' contains 0 files named model.safetensors, expected one"),
    ],
)
def test_a_name_that_is_no_model_is_refused(name, message):
    with pytest.raises(SubtuneError, match=f"--model: {message}"):
        find_starting_model(name)


@pytest.mark.parametrize(("family", "lacking"), [("llama", {"bitfit"}), ("distilbert", set())])
def test_methods_that_select_missing_parameters_are_known(directory_of, family, lacking):
    model = find_starting_model(str(directory_of(family)))
    assert {*model.problems_by_method(TASKS["sst2"])} == lacking


def test_tokens_are_those_of_the_tokenizer_or_are_guessed(tiny_bert):
    texts = [("a b c d",), ("a",), ("",)]
    here, on_hub = find_starting_model(str(tiny_bert)), find_starting_model("someone/bert")
    # Two special tokens around each text, and three guessed tokens.
    assert here.token_counts(texts)[0][[0, -1]].tolist() == [2, 6]
    assert on_hub.token_counts(texts)[0].tolist() == [3, 5, 9]
    assert on_hub.token_counts([("a b", "c d")])[0].tolist() == [9]


@pytest.mark.parametrize(("width", "nearest"), [(32, 384), (384, 384), (512, 384), (4096, 768)])
def test_learning_rates_are_those_of_the_nearest_width(width, nearest):
    rates = nearest_learning_rates(["full", "embeddings"], width)
    usual = DEFAULTS.methods["full"]["learning_rates"][nearest]
    assert rates == {"full": SearchOfRates(search=usual), "embeddings": None}


def choices(rows, windows=(32,), methods=("full",), **options) -> list:
    rates = nearest_learning_rates(methods, 384)
    fixed = FIXED | options.pop("fixed", {})
    return list_choices(rows, 1, windows, {"a model": rates}, fixed, **options)


@pytest.mark.parametrize(("rows", "size"), [(100, 8), (700, 16), (2000, 16), (20_000, 32)])
def test_larger_tables_have_larger_batches(rows, size):
    assert choices(rows)[0].experiment.batch_size == size


def test_fewer_rows_are_seen_more_often_whatever_the_time():
    numbers = (200, 1000, 2500, 10_000, 10**6)
    assert [choices(rows)[0].experiment.epochs for rows in numbers] == [10, 6, 4, 3, 2]
    assert {choice.experiment.epochs for choice in choices(1000)} == {6}


def steps_of(found) -> list[tuple]:
    """The number of rows, seeds and methods, and the window, of settings in their order."""
    return [
        (c.rows, len(c.experiment.seeds), len(c.experiment.methods), c.experiment.max_length)
        for c in found
    ]


def test_quicker_settings_have_no_search_then_fewer_seeds_then_fewer_rows_and_methods():
    found = choices(2000, methods=DEFAULTS.methods)
    every = len(DEFAULTS.methods)
    assert steps_of(found) == [
        *((2000, seeds, every, 32) for seeds in (5, 5, 4, 3, 2)),
        *((rows, 2, every, 32) for rows in (1400, 1000)),
        *((rows, 2, every - less, 32) for rows in (700, 500) for less in (1, 2, 3)),
    ]
    searched, *others = (choice.experiment.methods for choice in found)
    assert isinstance(searched["full"], SearchOfRates)
    assert {methods["full"] for methods in others} == {(5e-5,)}


def test_no_sample_has_almost_all_rows():
    assert {choice.rows for choice in choices(600)} == {600}
    found = choices(1200, methods=DEFAULTS.methods)
    every = len(DEFAULTS.methods)
    assert steps_of(found)[5:] == [
        (rows, 2, every - less, 32) for rows in (1200, 700, 500) for less in (1, 2, 3)
    ]


@pytest.mark.parametrize(("workers", "seconds"), [(1, 8), (2, 6), (3, 4), (9, 4)])
def test_workers_may_have_to_wait_for_the_longest_job(workers, seconds):
    assert bound_total_seconds([4, 2, 2], workers) == seconds


def test_a_comparison_plans_every_seed_and_search_of_the_methods_for_which_time_suffices():
    last = choices(2000, methods=DEFAULTS.methods)[-1]
    assert last.with_every_run.seeds == (0, 1, 2, 3, 4)
    assert [*last.with_every_run.methods] == [
        "full",
        "layernorm",
        "embeddings",
        "tf-idf",
        "constant",
    ]
    assert isinstance(last.with_every_run.methods["full"], SearchOfRates)
    assert last.experiment.left_out == ("lora-I", "frozen", "bitfit")
    assert last.with_every_run.left_out == last.experiment.left_out
    first = choices(2000, methods=DEFAULTS.methods)[0]
    assert first.experiment.left_out == ()
    # A method that the model lacks is not left out to save time.
    others = [method for method in DEFAULTS.methods if method != "bitfit"]
    assert choices(2000, methods=others)[-1].experiment.left_out == ("lora-I", "frozen")


def test_a_small_table_keeps_its_rows_and_a_sample_has_rows_of_each_class():
    assert {choice.rows for choice in choices(50)} == {50}
    rates = nearest_learning_rates(["full"], 384)
    found = list_choices(10_000, 200, (32,), {"a model": rates}, FIXED)
    assert min(choice.rows for choice in found) == 1000


def test_many_classes_are_trained_for_as_many_epochs_as_fewer_rows_of_few_classes():
    rates = nearest_learning_rates(["full"], 384)
    usual, many = (
        list_choices(700, classes, (32,), {"a model": rates}, FIXED)[0].experiment
        for classes in (10, 20)
    )
    assert (usual.epochs, usual.batch_size) == (6, 16)
    assert (many.epochs, many.batch_size) == (10, 8)


def test_no_fold_is_scored_twice():
    found = choices(50, fixed={"folds": 3})
    assert {len(choice.experiment.seeds) for choice in found} == {2, 3}


def test_shorter_windows_are_tried_before_rows_are_drawn():
    steps = steps_of(choices(2000, (512, 256, 128, 64), DEFAULTS.methods))
    windows = [(rows, window) for rows, *_, window in steps]
    assert windows[4:8] == [(2000, 512), (2000, 256), (2000, 128), (1400, 128)]
    # The shortest window is for the shortest settings.
    every = len(DEFAULTS.methods)
    assert [step for step in steps if step[-1] == 64] == [(500, 2, every - 3, 64)]


def test_every_model_has_the_same_methods_in_each_choice():
    rates = {
        "wide": nearest_learning_rates(DEFAULTS.methods, 768),
        "small": nearest_learning_rates([m for m in DEFAULTS.methods if m != "bitfit"], 384),
    }
    fixed = FIXED | {"models": [*rates]}
    found = list_choices(2000, 1, (32,), rates, fixed)
    for experiment in (choice.experiment for choice in found):
        wide, small = map(experiment.methods_for, rates)
        assert {*wide} - {"bitfit"} == {*small}
    assert (wide["full"], wide["layernorm"]) == ((2e-5,), (4e-4,))
    assert (small["full"], small["layernorm"]) == ((5e-5,), (4e-3,))
    assert {len(c.experiment.all_methods) for c in found} == {8, 7, 6, 5}


def test_models_of_one_name_are_told_apart_in_any_order(tiny_bert, tmp_path):
    folders = [tmp_path / name for name in ("a/model", "b/model", "model-2")]
    for folder in folders:
        shutil.copytree(tiny_bert, folder)
    expected = dict(zip(("model", "model-2", "model-2-2"), map(str, folders), strict=True))
    for given in permutations(map(str, folders)):
        models, problems = find_starting_models(given, [("a text",)])
        assert {name: model.reference for name, model in models.items()} == expected
        assert [*models] == sorted(models)
        assert not problems


def test_a_model_that_is_none_and_one_that_is_given_twice_are_left_out(tiny_bert, tmp_path):
    (tmp_path / "link").symlink_to(tiny_bert)
    names = ["/no/such/model", str(tiny_bert), str(tiny_bert), str(tmp_path / "link")]
    models, problems = find_starting_models(names, [("a text",)])
    assert [*models] == [tiny_bert.name]
    assert [*problems] == ["/no/such/model", str(tmp_path / "link")]
    assert problems[str(tmp_path / "link")] == f"it is the same model as {tiny_bert}"
    with pytest.raises(SubtuneError, match="--model: found '/no/such/model'"):
        find_starting_models(["/no/such/model"], [("a text",)])


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
    assert choose_max_lengths(np.array(counts), longest=512) == found


def test_the_library_knows_the_defaults():
    assert set(DEFAULTS.methods) <= set(METHODS)
    for kind, metrics in DEFAULTS.metrics.items():
        known = KINDS[kind if kind in KINDS else "classification"].metrics
        assert set(metrics) <= set(known)
