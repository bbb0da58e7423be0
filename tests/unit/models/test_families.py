"""Families of models: names of parameters by their roles, and what methods select in each."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, PretrainedConfig

from subtune.core.errors import SubtuneError
from subtune.methods import roles
from subtune.methods.roles import NAMINGS, is_classifier
from subtune.models.dimensions import read_dimensions
from subtune.models.encoder import load_encoder
from subtune.models.families import (
    FAMILIES,
    HEADS,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
)
from subtune.models.model_config import longest_text, read_model_config
from tests.helpers.families import FIELDS
from tests.helpers.reference import CLASSES

SHAPE = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 60}


@pytest.fixture(params=FAMILIES)
def config(request) -> PretrainedConfig:
    """The configuration of a model of three layers, with transformers' own padding id."""
    return AutoConfig.for_model(request.param, **SHAPE, num_hidden_layers=3)


@pytest.fixture
def family(config):
    return FAMILIES[config.model_type]


@pytest.mark.parametrize("head", HEADS)
def test_names_and_shapes_are_those_of_transformers_model(head, config, family):
    with torch.device("meta"):
        theirs = CLASSES[head].from_config(config)
    shapes = family.dimensions(config.to_dict()).shapes(2, head)
    exported = {family.exported_name(name, head): shape for name, shape in shapes.items()}
    assert exported == {name: tuple(value.shape) for name, value in theirs.named_parameters()}
    assert theirs.base_model_prefix == family.backbone


@pytest.mark.parametrize("head", HEADS)
def test_a_head_drops_what_layers_drop_unless_the_configuration_says_more(head, config, family):
    config.classifier_dropout = None
    expected = config.hidden_dropout_prob if head != QUESTION_ANSWERING else 0
    assert family.heads[head][-1].dropout_probability(config) == expected


def test_the_longest_text_is_the_longest_that_the_model_takes(config):
    model = AutoModel.from_config(config).eval()
    longest = longest_text(config.to_dict())
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_defaults_are_those_of_the_model(config, family):
    assert type(config)().to_dict().items() >= family.defaults.items()


# Fields that a pass reads beside the sizes, and fields that change no classifier's logits.
READ = {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"}
READ |= {"layer_norm_eps", "initializer_range", "model_type"}
WITHOUT_EFFECT = {"_name_or_path", "architectures", "dtype", "transformers_version", "return_dict"}
WITHOUT_EFFECT |= {"output_attentions", "output_hidden_states", "use_cache", "tie_word_embeddings"}
WITHOUT_EFFECT |= {"bos_token_id", "eos_token_id", "id2label", "label2id", "problem_type"}
WITHOUT_EFFECT |= {"chunk_size_feed_forward"}


def test_every_field_of_a_configuration_is_read_or_refused(config, family):
    assert set(config.to_dict()) <= {*family.defaults, *family.computed, *READ, *WITHOUT_EFFECT}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("is_decoder", True, "found true, expected false"),
        ("position_embedding_type", "relative_key", 'found "relative_key", expected "absolute"'),
        ("hidden_act", "gleu", 'found "gleu", expected "gelu" or "gelu_10" or '),
        ("pruned_heads", {"0": [1]}, 'found {"0": [1]}, expected {}'),
        ("quantization_config", {"quant_method": "gptq"}, 'found "gptq", expected weights that'),
    ],
)
def test_what_is_not_computed_here_is_refused_by_name(field, value, problem, config, tmp_path):
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    fields = json.loads(path.read_text())
    assert read_model_config(tmp_path) == fields
    path.write_text(json.dumps(fields | {field: value}))
    with pytest.raises(SubtuneError) as error:
        read_model_config(tmp_path)
    assert str(error.value).startswith(f"{path}: {field}: {problem}")


@pytest.fixture(params=FIELDS)
def directory(request, directory_of):
    return directory_of(request.param)


@pytest.fixture
def model(directory):
    return load_encoder(directory, SEQUENCE_CLASSIFICATION, 2)


def test_every_family_is_tried():
    tried = [NAMINGS[name] for name in FIELDS]
    assert all(naming in tried for naming in NAMINGS.values() if naming.layers)


def test_every_module_of_a_layer_has_a_role(model):
    places = map(roles.split_name, model.parameters)
    inside = {place.component for place in places if place.layer is not None}
    # BERT has no projections of relative positions.
    assert {name for name in inside if ".pos_" not in name} <= set(roles.IN_LAYER)


def test_norms_and_tables_are_known_by_their_names(model):
    module = model.transformers.module
    for name in model.parameters:
        kind = type(module.get_submodule(model.exported_name(name).rpartition(".")[0])).__name__
        if not is_classifier(name):
            assert roles.is_norm(name) == ("Norm" in kind), name
        assert roles.is_embedding(name) == ("Embedding" in kind), name


def test_shapes_are_known_without_weights(model, directory):
    dimensions = read_dimensions(directory)
    assert dimensions.shapes(2) == model.shapes
    pretrained = sum(v.numel() for n, v in model.parameters.items() if not is_classifier(n))
    assert dimensions.parameters == pretrained
    # Twice as many tokens cost twice as much, and what looks from token to token four times.
    assert 2 < dimensions.forward_flops(64) / dimensions.forward_flops(32) < 4


@pytest.mark.parametrize("family", ["albert", "distilbert", "electra", "gpt2", "qwen2"])
def test_a_pass_of_transformers_computes_about_as_much_as_dimensions_say(family, directory_of):
    directory, tokens = directory_of(family), 48
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model(torch.ones(1, tokens, dtype=torch.long))
    expected = read_dimensions(directory).forward_flops(tokens)
    assert expected == pytest.approx(counter.get_total_flops(), rel=0.15)
