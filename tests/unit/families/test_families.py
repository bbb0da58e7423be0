"""Families compared with transformers' own models."""

import ast
import copy
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, PretrainedConfig

import subtune
from subtune.core.errors import SubtuneError
from subtune.families import FAMILIES, first_position
from subtune.families.base import (
    EMBEDDINGS,
    HEADS,
    QUESTION_ANSWERING,
    is_classifier,
    is_embedding,
    is_key_bias,
    is_norm,
)
from subtune.models.configuration import longest_text, read_config
from subtune.models.dimensions import dimensions_by
from tests.helpers.reference import CLASSES

SHAPE = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 60}


@pytest.fixture(params=FAMILIES)
def config(request) -> PretrainedConfig:
    """Of a model of three layers, with transformers' own id of padding."""
    return AutoConfig.for_model(request.param, **SHAPE, num_hidden_layers=3)


@pytest.fixture
def family(config):
    return FAMILIES[config.model_type]


@pytest.fixture(params=HEADS)
def head(request):
    return request.param


@pytest.fixture
def shapes(config, head):
    return dimensions_by(config.to_dict()).shapes(2, head)


@pytest.fixture
def theirs(config, head):
    """transformers' own model with a head of two outputs, without weights."""
    with torch.device("meta"):
        return CLASSES[head].from_config(config)


def test_names_and_shapes_are_those_of_transformers_model(theirs, family, head, shapes):
    exported = {family.exported_name(name, head): shape for name, shape in shapes.items()}
    assert exported == {name: tuple(value.shape) for name, value in theirs.named_parameters()}
    assert theirs.base_model_prefix == family.backbone


def test_what_a_checkpoint_brings_is_all_but_the_classifier(family, head, shapes):
    dimensions = family.dimensions({"num_hidden_layers": 3})
    names = list(family.shapes(dimensions, head))
    assert names == [name for name in shapes if not is_classifier(name)]
    assert any(map(is_classifier, shapes))
    # No head reads more of a checkpoint than it must have.
    assert set(names) <= set(family.shapes(dimensions))


def test_norms_and_embeddings_are_those_of_the_model(theirs, family, head, shapes):
    for name in shapes:
        module = theirs.get_submodule(family.exported_name(name, head).rpartition(".")[0])
        assert is_norm(name) == isinstance(module, torch.nn.LayerNorm), name
        assert is_embedding(name) == isinstance(module, torch.nn.Embedding), name


def test_a_head_drops_as_much_as_the_configuration_says(config, family, head):
    last, config = family.heads[head][-1], copy.deepcopy(config)
    config.classifier_dropout = None
    drops = head != QUESTION_ANSWERING
    assert last.dropout_of(config) == drops * config.hidden_dropout_prob
    config.classifier_dropout = 0.5
    assert last.dropout_of(config) == drops * 0.5


def test_what_cancels_changes_nothing_in_transformers_own_model(config, family):
    model = AutoModel.from_config(config).double().eval()
    ids = torch.tensor([[5, 6, 7, 8], [9, 5, 5, 6]])
    with torch.no_grad():
        before = model(input_ids=ids).last_hidden_state
        moved = [name for name, _ in model.named_parameters() if is_key_bias(name)]
        for name in moved:
            model.get_parameter(name).normal_()
        torch.testing.assert_close(model(input_ids=ids).last_hidden_state, before)
    assert len(moved) == config.num_hidden_layers


def test_positions_are_counted_from_where_the_model_counts_them(config):
    model = AutoModel.from_config(config).eval()
    rows = []
    table = model.get_submodule(EMBEDDINGS.position)
    table.register_forward_hook(lambda module, inputs, output: rows.append(inputs[0]))
    model(input_ids=torch.tensor([[5, 6, 7]]))
    first = first_position(config.model_type, config.pad_token_id)
    assert rows[0].flatten().tolist() == [first, first + 1, first + 2]


def test_the_longest_text_is_the_longest_that_the_model_takes(config):
    model = AutoModel.from_config(config).eval()
    longest = longest_text(config.to_dict())
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_defaults_are_those_of_the_model(config, family):
    assert type(config)().to_dict().items() >= family.defaults.items()


# What a pass reads beside the sizes, and what changes nothing that a classifier computes.
READ = {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"}
READ |= {"layer_norm_eps", "initializer_range", "model_type"}
WITHOUT_EFFECT = {"_name_or_path", "architectures", "dtype", "transformers_version", "return_dict"}
WITHOUT_EFFECT |= {"output_attentions", "output_hidden_states", "use_cache", "tie_word_embeddings"}
WITHOUT_EFFECT |= {"bos_token_id", "eos_token_id", "id2label", "label2id", "problem_type"}
WITHOUT_EFFECT |= {"chunk_size_feed_forward"}


def test_every_field_of_a_configuration_is_read_or_refused_or_without_effect(config, family):
    assert set(config.to_dict()) <= {*family.defaults, *family.computed, *READ, *WITHOUT_EFFECT}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("is_decoder", True, "found true, expected false"),
        ("position_embedding_type", "relative_key", 'found "relative_key", expected "absolute"'),
        ("hidden_act", "gleu", 'found "gleu", expected "gelu" or "gelu_10" or '),
        ("pruned_heads", {"0": [1]}, 'found {"0": [1]}, expected {}'),
        ("quantization_config", {"quant_method": "gptq"}, 'found "gptq", expected weights that'),
        ("num_attention_heads", 0, "found 0, expected a whole number from 1"),
        ("pad_token_id", None, "found null, expected a whole number from 0"),
        ("hidden_size", 33, "found 33, expected a multiple of num_attention_heads, 2"),
    ],
)
def test_what_is_not_computed_here_is_refused_by_name(field, value, problem, config, tmp_path):
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    fields = json.loads(path.read_text())
    assert read_config(tmp_path) == fields
    path.write_text(json.dumps(fields | {field: value}))
    with pytest.raises(SubtuneError) as error:
        read_config(tmp_path)
    assert str(error.value).startswith(f"{path}: {field}: {problem}")


def test_no_other_file_names_a_family():
    source = Path(subtune.__file__).parent
    for path in source.rglob("*.py"):
        if path.parent != source / "families":
            strings = (
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant)
            )
            assert not FAMILIES.keys() & {s for s in strings if isinstance(s, str)}, path
