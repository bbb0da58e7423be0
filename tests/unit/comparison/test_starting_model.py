"""The model of a name, and what is known of it before training."""

import pytest

from subtune.comparison import DEFAULTS, starting_model
from subtune.comparison.starting_model import find_starting_model
from subtune.core.errors import SubtuneError
from subtune.tasks import TASKS


def test_the_default_model_is_the_package_that_is_here():
    model = find_starting_model(None)
    reference = DEFAULTS.model["package"]
    assert (model.source, model.reference, model.name) == ("package", reference, "minilm")
    assert (model.hidden_size, model.longest_text) == (384, 512)


def test_without_the_package_the_default_is_the_same_model_on_the_hub(monkeypatch):
    monkeypatch.setattr(starting_model.importlib.util, "find_spec", lambda name: None)
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
