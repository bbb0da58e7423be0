"""Configurations and tokenizers that make no model are refused in one line."""

import re

import pytest
from tokenizers import Tokenizer
from transformers import AutoConfig

from subtune.core.errors import SubtuneError
from subtune.data.load import read_tokenizer, tokenize
from subtune.families.base import SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION
from subtune.models import files, transformers_models
from subtune.models.dimensions import dimensions_in
from subtune.models.encoder import load_model
from subtune.models.files import MANY, longest_text
from subtune.tasks import TASKS
from tests.helpers import examples, families


@pytest.mark.parametrize(
    ("family", "fields", "problem"),
    [
        ("bert", {"use_cache": "maybe"}, "config.json cannot be read: Validation error for field "),
        ("llama", {"model_type": ["llama"]}, 'model_type: found ["llama"], expected a model\'s'),
        ("llama", {"hidden_act": "geluu"}, "cannot be loaded: 'geluu' is not known"),
        ("llama", {"hidden_size": -32}, "cannot be loaded: Trying to create tensor with negative"),
    ],
)
def test_a_configuration_that_makes_no_model_is_one_line(family, fields, problem, copied):
    directory = copied(family, **fields)
    with pytest.raises(SubtuneError, match=re.escape(problem)) as error:
        load_model(directory, SEQUENCE_CLASSIFICATION, 2)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("padding", [None, -1, 45, 999])
def test_padding_that_is_no_word_is_none_and_the_texts_end_pads(padding, copied, capsys):
    directory = copied("llama", pad_token_id=padding, eos_token_id=3)
    assert load_model(directory, SEQUENCE_CLASSIFICATION, 2).config.pad_token_id == 3
    assert capsys.readouterr().err == ""


def test_words_behind_the_last_row_matter_where_a_text_has_them(copied):
    directory = copied("llama")
    tokenizer = Tokenizer.from_file(str(directory / files.TOKENIZER))
    tokenizer.add_special_tokens(["[BEHIND]"])
    tokenizer.save(str(directory / files.TOKENIZER))
    assert files.files_of(directory)
    rows = examples.rows_of(TASKS["sst2"])
    assert tokenize(TASKS["sst2"], rows, directory, 24)
    rows["train"] = rows["train"].map(lambda row: row | {"text_a": "a [BEHIND] film"})
    with pytest.raises(SubtuneError, match="found a token with id 45, expected ids below 45"):
        tokenize(TASKS["sst2"], rows, directory, 24)


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {}}'])
def test_a_tokenizer_that_cannot_be_read_is_one_line(content, copied):
    directory = copied()
    (directory / files.TOKENIZER).write_text(content)
    with pytest.raises(SubtuneError, match=r"tokenizer\.json is not a readable tokenizer"):
        read_tokenizer(directory)


BEHIND_PADDING = {"max_position_embeddings": 514, "pad_token_id": 1}


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "modernbert", "max_position_embeddings": 8192}, 8192),
        ({"model_type": "bloom"}, MANY),
        *(
            ({"model_type": model_type, **BEHIND_PADDING}, 512)
            for model_type in ("mpnet", "camembert", "longformer", "xlm-roberta-xl", "esm")
        ),
    ],
)
def test_the_longest_text_is_told_by_the_configuration(fields, longest):
    assert longest_text(fields) == longest


def test_a_model_without_a_sequence_head_loads_with_a_token_head(tmp_path):
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
