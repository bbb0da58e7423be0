"""The model that a name stands for, and its dimensions before it is downloaded."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.init import models
from subtune.init.defaults import DEFAULTS
from subtune.init.models import model_called, without_parameters
from subtune.tasks import TASKS


def test_without_a_name_it_is_the_package_that_is_here():
    model = model_called(None)
    reference = DEFAULTS.model["package"]
    assert (model.source, model.reference, model.name) == ("package", reference, "minilm")
    assert (model.hidden_size, model.longest_text) == (384, 512)
    assert "nothing is downloaded" in model.reason


def test_without_the_package_it_is_the_same_model_on_the_hub(monkeypatch):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    model = model_called(None)
    assert (model.source, model.reference, model.name) == ("hub", DEFAULTS.model["hub"], "minilm")
    assert (model.hidden_size, model.directory, model.dimensions) == (384, None, None)


@pytest.mark.parametrize(
    ("called", "reference", "name", "width"),
    [
        ("bert-base-cased", "google-bert/bert-base-cased", "bert-base-cased", 768),
        ("google-bert/bert-large-cased", "google-bert/bert-large-cased", "bert-large-cased", 1024),
        ("someone/bert-base-cased", "someone/bert-base-cased", "bert-base-cased-model", 768),
    ],
)
def test_a_name_that_is_no_directory_and_no_package_is_the_hubs(called, reference, name, width):
    model = model_called(called)
    assert (model.source, model.reference, model.name) == ("hub", reference, name)
    assert model.hidden_size == width


def test_a_directory_is_a_local_model(tiny_bert):
    model = model_called(str(tiny_bert))
    assert (model.source, model.directory, model.hidden_size) == ("path", tiny_bert, 32)
    assert model.longest_text == 64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/directory", "--model: found '/no/such/directory', expected an existing"),
        ("json", "--model: package 'json' holds 0 model.safetensors, expected one"),
        ("FOLDER", "--model: found no config.json in '"),
    ],
)
def test_what_is_no_model_is_refused_in_a_line(tmp_path, name, message):
    with pytest.raises(SubtuneError) as error:
        model_called(name.replace("FOLDER", str(tmp_path)))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("family", "lacking"), [("llama", {"bitfit"}), ("distilbert", set())])
def test_methods_that_select_what_a_model_has_not_are_known(directory_of, family, lacking):
    model = model_called(str(directory_of(family)))
    problems = without_parameters(model, TASKS["sst2"], DEFAULTS.methods)
    assert set(problems) == lacking
