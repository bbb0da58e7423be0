"""Configurations and weights that make no model are refused in one line."""

import json
import re
import shutil

import pytest
import safetensors.torch
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig

from subtune.core.errors import SubtuneError
from subtune.data.tokens import tokenize
from subtune.families import naming_of
from subtune.families.base import SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION
from subtune.models import files, transformers_models
from subtune.models.configuration import CONFIG, longest_text
from subtune.models.dimensions import dimensions_in
from subtune.models.load import load_model
from subtune.tasks import TASKS
from tests.helpers import examples, families


@pytest.fixture
def copied(directory_of, tmp_path):
    """A copy of a tiny model of a family, which a test may change."""
    return lambda family: shutil.copytree(directory_of(family), tmp_path / "mine")


def with_fields(directory, **changed):
    path = directory / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return directory


def with_weights(directory, change):
    weights = safetensors.torch.load_file(directory / files.WEIGHTS)
    safetensors.torch.save_file(change(weights), directory / files.WEIGHTS)
    return directory


def renamed(was, now):
    return lambda weights: {name.replace(was, now): value for name, value in weights.items()}


def without(name):
    return lambda weights: {other: value for other, value in weights.items() if other != name}


def shorter(name):
    return lambda weights: weights | {name: weights[name][:20].clone()}


def beside(name, like):
    return lambda weights: weights | {name: weights[like].clone()}


WORDS = "model.embed_tokens.weight"
UP = "model.layers.{}.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without(UP.format(1)), f"mine has no weights '{UP.format(1)}', which its model has"),
        (shorter(WORDS), f"mine: {WORDS} has the shape [20, 32], expected [45, 32] as the model's"),
        (
            beside(UP.format(2), UP.format(1)),
            f"mine has weights '{UP.format(2)}', which a model of its configuration has not",
        ),
        (
            beside("model.layers.0.self_attn.q_proj.bias", "model.norm.weight"),
            "mine has weights 'model.layers.0.self_attn.q_proj.bias', which a model of its",
        ),
        (
            renamed("model.", "module.model."),
            f"mine has no weights '{WORDS}', which its model has; found 'module.{WORDS}', which "
            "has another prefix",
        ),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda directory: dimensions_in(directory).shapes(2),
        lambda directory: load_model(directory, SEQUENCE_CLASSIFICATION, 2),
    ],
    ids=["planned", "loaded"],
)
def test_weights_that_are_not_those_of_the_configuration_are_refused(change, problem, read, copied):
    directory = with_weights(copied("llama"), change)
    with pytest.raises(SubtuneError, match=re.escape(problem)):
        read(directory)


def test_another_head_beside_the_weights_does_not_matter(copied):
    directory = with_weights(copied("llama"), beside("lm_head.weight", WORDS))
    assert load_model(directory, SEQUENCE_CLASSIFICATION, 2).outputs == 2


def test_weights_that_are_whole_numbers_are_refused(copied):
    directory = with_weights(copied("llama"), lambda of: of | {WORDS: of[WORDS].to(torch.int8)})
    with pytest.raises(SubtuneError, match=f"{WORDS} is stored as I8, expected one of F64, F32"):
        files.files_of(directory)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"model_type": ["llama"]}, 'model_type: found ["llama"], expected'),
        ({"hidden_act": "geluu"}, "cannot be loaded: 'geluu' is not known"),
        ({"hidden_size": -32}, "cannot be loaded: Trying to create tensor with negative"),
        ({"rms_norm_eps": "small"}, "Validation error for field 'rms_norm_eps': Type"),
        ({"rope_parameters": {"rope_type": "no"}}, "cannot be loaded: 'no' is not known"),
    ],
)
def test_a_configuration_that_makes_no_model_is_one_line(fields, problem, copied):
    directory = with_fields(copied("llama"), **fields)
    with pytest.raises(SubtuneError, match=re.escape(problem)) as error:
        dimensions_in(directory).shapes(2)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("padding", [-1, 45, 999])
def test_padding_that_is_no_word_is_none_and_the_texts_end_pads(padding, copied, capsys):
    directory = with_fields(copied("llama"), pad_token_id=padding, eos_token_id=3)
    assert transformers_models.read_config(directory, outputs=2).pad_token_id == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("family", ["llama", "modernbert"])
def test_words_behind_the_last_row_are_refused_before_anything_runs(family, copied):
    directory = with_fields(copied(family), vocab_size=20)
    problem = "found a word of number 44, expected numbers below 20, the vocab_size of the model"
    with pytest.raises(SubtuneError, match=problem):
        files.files_of(directory)


def test_tokens_that_were_added_behind_the_last_row_matter_where_a_text_has_them(copied):
    directory = copied("llama")
    tokenizer = Tokenizer.from_file(str(directory / files.TOKENIZER))
    tokenizer.add_special_tokens(["[BEHIND]"])
    tokenizer.save(str(directory / files.TOKENIZER))
    assert files.files_of(directory)
    rows = examples.rows_of(TASKS["sst2"])
    assert tokenize(TASKS["sst2"], rows, directory, 24)
    rows["train"] = rows["train"].map(lambda row: row | {"text_a": "a [BEHIND] film"})
    with pytest.raises(SubtuneError, match="found a word of number 45, expected numbers below 45"):
        tokenize(TASKS["sst2"], rows, directory, 24)


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {}}', "[" * 200_000])
def test_a_tokenizer_that_cannot_be_read_is_refused_before_anything_runs(content, copied):
    directory = copied("llama")
    (directory / files.TOKENIZER).write_text(content)
    with pytest.raises(SubtuneError, match=r"tokenizer\.json is not a readable tokenizer"):
        files.files_of(directory)


@pytest.mark.parametrize("model_type", ["camembert", "longformer", "xlm-roberta-xl", "esm"])
def test_positions_of_robertas_like_begin_behind_padding(model_type):
    assert naming_of(model_type).positions_behind_padding
    fields = {"model_type": model_type, "max_position_embeddings": 514, "pad_token_id": 1}
    assert longest_text(fields) == 512


def test_a_model_that_has_no_head_for_sequences_is_loaded_with_that_for_words(tmp_path):
    fields = families.SHAPE | families.USUAL | families.DECODER
    config = AutoConfig.for_model("apertus", **fields)
    model = transformers_models.AUTO_CLASSES[TOKEN_CLASSIFICATION].from_config(config)
    model.save_pretrained(tmp_path)
    assert load_model(tmp_path, TOKEN_CLASSIFICATION, 3).outputs == 3
    dimensions = dimensions_in(tmp_path)
    assert dimensions.shapes(3, TOKEN_CLASSIFICATION)["classifier.score.weight"] == (3, 32)
    assert dimensions.parameters > 0
    with pytest.raises(SubtuneError, match="no model for sequence classification of 'apertus'"):
        dimensions.shapes(3)
