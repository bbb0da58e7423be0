"""What every family says of its models, against transformers' own."""

import ast
import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    PretrainedConfig,
    RobertaConfig,
)

import subtune
from subtune.errors import SubtuneError
from subtune.models import encoder
from subtune.models.dimensions import dimensions_of
from subtune.models.families import FAMILIES, family_of
from subtune.models.families.base import Component
from subtune.models.files import read_config

SHAPE = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 60}
# One row per family: a model of three layers, and the row of its table that position 0 reads.
MODELS = {
    "bert": (BertConfig(**SHAPE, num_hidden_layers=3), 0),
    "roberta": (RobertaConfig(**SHAPE, num_hidden_layers=3, pad_token_id=1), 2),
}


@pytest.fixture(params=MODELS)
def config(request) -> PretrainedConfig:
    return MODELS[request.param][0]


@pytest.fixture
def family(config):
    return family_of(config.model_type)


def test_every_family_has_its_row():
    assert MODELS.keys() == FAMILIES.keys()


def test_a_familys_names_are_those_of_its_model(config, family):
    names = [*family.names(3), "classifier.weight", "classifier.bias"]
    assert sorted(names) == sorted(encoder.skeleton(config, 2).parameters)


def test_norms_and_embeddings_are_those_of_the_model(config, family):
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    for name, _ in model.named_parameters():
        module = model.get_submodule(name.rpartition(".")[0])
        assert family.is_norm(name) == isinstance(module, torch.nn.LayerNorm), name
        assert family.is_embedding(name) == isinstance(module, torch.nn.Embedding), name


def test_a_parameter_belongs_to_its_component(family):
    for layer in (0, 11):
        for component in family.components:
            name = f"{family.layers}{layer}.{component}.bias"
            assert family.component_of(name) == Component(component, layer, "bias")
    assert family.component_of(f"{family.pooler}.weight") == (family.pooler, None, "weight")


def test_what_cancels_changes_nothing_in_transformers_own_model(config, family):
    model = AutoModel.from_config(config).double().eval()
    ids = torch.tensor([[5, 6, 7, 8], [9, 5, 5, 6]])
    with torch.no_grad():
        before = model(input_ids=ids).last_hidden_state
        moved = [name for name, _ in model.named_parameters() if family.cancels(name)]
        for name in moved:
            model.get_parameter(name).normal_()
        torch.testing.assert_close(model(input_ids=ids).last_hidden_state, before)
    assert len(moved) == config.num_hidden_layers


def test_positions_are_counted_from_where_the_model_counts_them(config, family):
    model = AutoModel.from_config(config).eval()
    rows = []
    table = model.get_submodule(family.embeddings.position)
    table.register_forward_hook(lambda module, inputs, output: rows.append(inputs[0]))
    model(input_ids=torch.tensor([[5, 6, 7]]))
    first = family.first_position(config)
    assert rows[0].flatten().tolist() == [first, first + 1, first + 2]
    assert first == MODELS[config.model_type][1]


def test_token_types_are_told_apart_where_there_are_several(family):
    assert family.has_token_types({"type_vocab_size": 2})
    assert not family.has_token_types({"type_vocab_size": 1})
    assert not family.has_token_types({})


def test_exported_names_are_those_of_transformers_classifier(config, family):
    with torch.device("meta"):
        theirs = AutoModelForSequenceClassification.from_config(config)
    names = [family.exported_name(name) for name in encoder.skeleton(config, 2).parameters]
    assert sorted(names) == sorted(name for name, _ in theirs.named_parameters())
    head = [name for name in names if not name.startswith(f"{family.backbone}.")]
    assert all(name.startswith(f"{family.classifier}.") for name in head)
    assert theirs.base_model_prefix == family.backbone


def test_dimensions_count_the_encoders_parameters(config, tmp_path):
    config.save_pretrained(tmp_path)
    parameters = encoder.skeleton(config, 2).parameters
    counted = sum(value.numel() for name, value in parameters.items() if "classifier" not in name)
    assert dimensions_of(str(tmp_path)).parameters == counted


def test_a_model_of_another_family_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "robeta"}))
    with pytest.raises(SubtuneError) as error:
        read_config(tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'config.json'}: model_type: found 'robeta', expected one of bert, roberta "
        "(did you mean 'roberta'?)"
    )


def test_no_other_file_names_a_family():
    source = Path(subtune.__file__).parent
    for path in source.rglob("*.py"):
        if path.parent != source / "models" / "families":
            strings = (
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant)
            )
            assert not FAMILIES.keys() & {s for s in strings if isinstance(s, str)}, path
