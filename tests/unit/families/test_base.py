"""Families of models: names of parameters by their roles, and what methods select in each."""

import ast
import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, PretrainedConfig

import subtune
from subtune.core.errors import SubtuneError
from subtune.families import FAMILIES, NAMINGS, base, first_position
from subtune.families.base import (
    HEADS,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    is_classifier,
    is_embedding,
    is_key_bias,
    is_norm,
)
from subtune.models import encoder, forward
from subtune.models.dimensions import dimensions_by, dimensions_in
from subtune.models.encoder import load_model
from subtune.models.files import longest_text, read_config
from subtune.models.forward import pack
from subtune.models.operations import DropoutMasks, PerRun
from subtune.selections.methods import named
from subtune.tasks import TASKS
from tests.helpers import examples, reference
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
    table = model.get_submodule("embeddings.position_embeddings")
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


TASK = TASKS["sst2"]


@pytest.fixture(params=FIELDS)
def directory(request, directory_of):
    return directory_of(request.param)


@pytest.fixture
def model(directory):
    return load_model(directory, SEQUENCE_CLASSIFICATION, 2)


@pytest.fixture
def batch(model, directory):
    rows = examples.examples_of(TASK, examples.tokens(TASK, directory, rows=6))["train"]
    return pack(rows, np.arange(6), model)


def test_every_family_is_tried():
    tried = [NAMINGS[name] for name in FIELDS]
    assert all(naming in tried for naming in NAMINGS.values() if naming.layers)


def test_norms_and_tables_are_known_by_their_names(model):
    module = model.transformers.module
    for name in model.parameters:
        kind = type(module.get_submodule(model.exported_name(name).rpartition(".")[0])).__name__
        if not is_classifier(name):
            assert base.is_norm(name) == ("Norm" in kind), name
        assert base.is_embedding(name) == ("Embedding" in kind), name


def test_shapes_are_known_without_weights(model, directory):
    dimensions = dimensions_in(directory)
    assert dimensions.shapes(2) == encoder.shapes_of(model)
    pretrained = sum(v.numel() for n, v in model.parameters.items() if not is_classifier(n))
    assert dimensions.parameters == pretrained
    # Twice as many tokens cost twice as much, and what looks from token to token four times.
    assert 2 < dimensions.forward_flops(64) / dimensions.forward_flops(32) < 4


def test_logits_are_those_of_transformers_model(model, batch, directory):
    model = encoder.with_new_classifier(model, 0)
    theirs = reference.CLASSES[SEQUENCE_CLASSIFICATION].from_pretrained(
        directory, attn_implementation="eager"
    )
    theirs.eval().load_state_dict(model.exported())
    ids = [row.tolist() for row in batch.ids.split(batch.example.bincount().tolist())]
    with torch.no_grad():
        expected = theirs(**reference.padded({"input_ids": ids})).logits
        torch.testing.assert_close(forward.logits(model, batch)[0], expected, rtol=0, atol=1e-6)


def test_runs_side_by_side_compute_what_each_computes_alone(model, batch):
    generator = torch.Generator().manual_seed(1)
    values = {
        name: value + 0.1 * torch.randn(3, *value.shape, generator=generator)
        for name, value in model.parameters.items()
        if value.ndim == 1 or is_classifier(name)
    }

    def computed(values):
        """Logits of runs with their own values, and gradients of a sum of logits."""
        leaves = {name: value.clone().requires_grad_(True) for name, value in values.items()}
        weights = {name: PerRun(leaf) for name, leaf in leaves.items()}
        logits = forward.logits(model, batch, weights, DropoutMasks(0, model.device))
        (logits * torch.linspace(-1, 1, 12).view(6, 2)).sum().backward()
        return logits, {name: leaf.grad for name, leaf in leaves.items()}

    together, gradients = computed(values)
    for run in range(3):
        logits, own = computed({name: value[run : run + 1] for name, value in values.items()})
        torch.testing.assert_close(logits[0], together[run], rtol=0, atol=2e-6)
        for name, gradient in own.items():
            if gradient is None:
                assert name in model.transformers.without_effect
                continue
            torch.testing.assert_close(
                gradient[0], gradients[name][run], rtol=1e-4, atol=1e-5, msg=name
            )


@pytest.mark.parametrize(
    ("family", "method", "instead"),
    [
        ("llama", "bitfit", "encoder.layer.*.attention.output.LayerNorm.weight"),
        ("modernbert", "b_q", "embeddings.LayerNorm.weight"),
    ],
)
def test_a_method_that_a_model_lacks_says_what_the_model_has(family, method, instead, directory_of):
    shapes = dimensions_in(directory_of(family)).shapes(2)
    message = "matches no parameter of the model, whose vectors are"
    with pytest.raises(SubtuneError, match=message) as error:
        named(method, {}).resolve(shapes, 0)
    assert instead in str(error.value)
