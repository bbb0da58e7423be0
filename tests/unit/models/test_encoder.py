"""Pretrained weights as they are loaded, with a new classifier; others are refused by name."""

import re
import shutil

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS, SELECTION
from subtune.methods.roles import is_classifier
from subtune.models import encoder, transformers_models
from subtune.models.dimensions import read_dimensions, shapes_of_selection
from subtune.models.encoder import draw_classifier, load_encoder, with_new_classifier
from subtune.models.families import HEADS, SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION
from subtune.models.model_files import WEIGHTS, model_version, silence_transformers
from tests.helpers import families

QUERY = "encoder.layer.1.attention.self.query.weight"
LLAMAS_WORDS = "model.embed_tokens.weight"
UP = "model.layers.{}.mlp.up_proj.weight"


def load(directory):
    return load_encoder(directory, SEQUENCE_CLASSIFICATION, 2)


def plan(directory):
    model_version(directory)
    read_dimensions(directory).shapes(2)


def without(part):
    return lambda weights: {name: value for name, value in weights.items() if part not in name}


def cut(name, size):
    return lambda weights: weights | {name: weights[name][:size].clone()}


def beside(name, like):
    return lambda weights: weights | {name: weights[like].clone()}


LACKS, MORE = (
    "has no weights '{}', which the model needs",
    "has weights '{}', which the model's configuration does not define",
)
SHAPE = "{} has shape {}, expected [{}, 32] as in the model's configuration"


@pytest.mark.parametrize(
    ("family", "weights", "problem"),
    [
        ("bert", without("layer.1."), LACKS.format(QUERY)),
        ("bert", beside(QUERY.replace("1", "2"), QUERY), MORE.format(QUERY.replace("1", "2"))),
        ("bert", cut(QUERY, 16), SHAPE.format(QUERY, [16, 32], 32)),
        ("llama", without(UP.format(1)), LACKS.format(UP.format(1))),
        ("llama", cut(LLAMAS_WORDS, 20), SHAPE.format(LLAMAS_WORDS, [20, 32], 45)),
        ("llama", beside(UP.format(2), UP.format(1)), MORE.format(UP.format(2))),
        (
            "llama",
            beside("model.layers.0.self_attn.q_proj.bias", "model.norm.weight"),
            MORE.format("model.layers.0.self_attn.q_proj.bias"),
        ),
    ],
)
@pytest.mark.parametrize("read", [plan, load])
@pytest.mark.fault(
    "models",
    "weights that are truncated, missing, of another format or disagree with `config.json`",
    "rejected before any work",
)
def test_weights_that_do_not_fit_are_refused_by_name(read, family, weights, problem, copied):
    directory = copied(family, weights)
    with pytest.raises(SubtuneError, match=rf"^{directory}:? {re.escape(problem)}"):
        read(directory)


@pytest.mark.parametrize("cut", [slice(0), slice(100), slice(-1), None])
def test_weights_that_were_cut_short_or_are_of_another_kind_are_refused(copied, cut):
    path = copied() / WEIGHTS
    other = b"version https://git-lfs.github.com/spec/v1"
    path.write_bytes(path.read_bytes()[cut] if cut else other)
    with pytest.raises(SubtuneError, match="cannot be read, expected a complete safetensors"):
        model_version(path.parent)


def renamed(weights):
    """Weights like those of the first published checkpoints: another head, other names of norms."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for now, then in old.items():
        weights = {name.replace(now, then): value for name, value in weights.items()}
    head = {"cls.predictions.bias": torch.zeros(3), "bert.embeddings.position_ids": torch.arange(4)}
    return {f"bert.{name}": value for name, value in weights.items()} | head


@pytest.mark.parametrize(
    ("family", "weights"),
    [("bert", renamed), ("llama", beside("lm_head.weight", LLAMAS_WORDS))],
)
def test_names_of_published_checkpoints_are_read(family, weights, copied, directory_of):
    expected, parameters = (
        load(of).parameters for of in (directory_of(family), copied(family, weights))
    )
    assert all(torch.equal(parameters[name], value) for name, value in expected.items())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_seed_draws_the_whole_classifier_beside_what_transformers_reads(
    family, head, directory_of
):
    model = load_encoder(directory_of(family), head, 3)
    theirs = AutoModel.from_pretrained(directory_of(family)).state_dict()
    first, same, other = (encoder.draw_classifier(model, seed) for seed in (1, 1, 2))
    assert list(first) == [name for name in model.parameters if is_classifier(name)]
    for name, values in model.parameters.items():
        assert torch.equal(values, torch.zeros(values.shape) if name in first else theirs[name])
    for name, values in first.items():
        assert values.shape == model.parameters[name].shape
        assert torch.equal(values, same[name])
        assert torch.equal(values, other[name]) == name.endswith(".bias") == (not values.any())
    drawn = torch.cat([values.flatten() for name, values in first.items() if values.any()])
    # Five standard errors of a deviation.
    within = 5 * model.config.initializer_range / (2 * drawn.numel()) ** 0.5
    assert drawn.std().item() == pytest.approx(model.config.initializer_range, abs=within)


@pytest.mark.parametrize(
    ("family", "fields", "problem"),
    [
        ("bert", {"use_cache": "maybe"}, "config.json cannot be read: Validation error for field "),
        ("llama", {"model_type": ["llama"]}, 'model_type: found ["llama"], expected the name'),
        ("llama", {"hidden_act": "geluu"}, "cannot be loaded: 'geluu' is not a known name"),
        ("llama", {"hidden_size": -32}, "cannot be loaded: Trying to create tensor with negative"),
    ],
)
def test_a_configuration_that_makes_no_model_is_one_line(family, fields, problem, copied):
    with pytest.raises(SubtuneError, match=re.escape(problem)) as error:
        load(copied(family, **fields))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("padding", [None, -1, 45])
def test_padding_that_is_no_word_is_none_and_the_texts_end_pads(padding, copied, capsys):
    directory = copied("llama", pad_token_id=padding, eos_token_id=3)
    assert load(directory).config.pad_token_id == 3
    assert capsys.readouterr().err == ""


def test_a_model_without_a_sequence_head_loads_with_a_token_head(tmp_path):
    fields = families.SHAPE | families.USUAL | families.DECODER
    config = AutoConfig.for_model("apertus", **fields)
    model = transformers_models.auto_class(TOKEN_CLASSIFICATION).from_config(config)
    model.save_pretrained(tmp_path)
    *_, last = load_encoder(tmp_path, TOKEN_CLASSIFICATION, 3).parameters.values()
    assert len(last) == 3
    dimensions = read_dimensions(tmp_path)
    assert dimensions.shapes(3, TOKEN_CLASSIFICATION)["classifier.score.weight"] == (3, 32)
    assert dimensions.parameters > 0
    with pytest.raises(SubtuneError, match="no class for sequence classification with 'apertus'"):
        dimensions.shapes(3)


@pytest.mark.parametrize("family", [*families.FIELDS, "t5", "bart", "xlnet", "fnet"])
def test_a_new_classifier_has_the_distribution_of_transformers(family, directory_of):
    """Standard deviations of a wide classifier, over several draws, agree within 5 %."""
    directory = directory_of(family)
    theirs: dict[str, list] = {}
    ours: dict[str, list] = {}
    with silence_transformers():
        for seed in range(5):
            loaded = load_encoder(directory, SEQUENCE_CLASSIFICATION, 200)
            drawn = draw_classifier(loaded, seed)
            torch.manual_seed(seed)
            plain = AutoModelForSequenceClassification.from_config(loaded.config)
            for name, value in drawn.items():
                ours.setdefault(name, []).append(value)
                own = plain.get_parameter(loaded.exported_name(name))
                theirs.setdefault(name, []).append(own.detach())
    assert theirs
    for name in theirs:
        found, expected = torch.stack(ours[name]), torch.stack(theirs[name])
        assert found.mean().item() == pytest.approx(expected.mean().item(), abs=0.01)
        assert found.std().item() == pytest.approx(expected.std().item(), rel=0.05)
        if found.std():
            assert not torch.equal(found[0], found[1])
            assert torch.equal(found[0], draw_classifier(loaded, 0)[name])


@pytest.mark.parametrize("pooling", [None, "first", "mean"])
@pytest.mark.parametrize("head", [SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION])
def test_a_modernbert_without_a_head_gets_one_that_is_trained(
    head, pooling, tmp_path, directory_of
):
    """sentence-transformers saves the encoder alone."""
    whole = directory_of("modernbert")
    shutil.copytree(whole, tmp_path / "mine")
    AutoModel.from_pretrained(whole).save_pretrained(tmp_path / "mine")
    encoder = with_new_classifier(load_encoder(tmp_path / "mine", head, 2, pooling), 1)
    drawn = {name: value for name, value in encoder.parameters.items() if is_classifier(name)}
    names = ["head.dense.weight", "head.norm.weight", "classifier.weight", "classifier.bias"]
    assert [encoder.exported_name(name) for name in drawn] == names
    same = with_new_classifier(load_encoder(tmp_path / "mine", head, 2, pooling), 1)
    assert all(torch.equal(same.parameters[name], drawn[name]) for name in drawn)
    assert drawn["classifier.head.dense.weight"].any()
    # The rest is that of the whole checkpoint, in which the head is pretrained.
    from_whole = load_encoder(whole, head, 2, pooling).parameters
    for name, value in encoder.parameters.items():
        assert name in drawn or torch.equal(value, from_whole[name])
    assert {name for name in from_whole if name.startswith("head.")}
    dimensions = read_dimensions(tmp_path / "mine")
    lora = SELECTION.validate_python({"peft": {"type": "LORA", "target_modules": ["Wqkv"]}})
    for selection in (METHODS["layernorm"], lora):
        shapes = shapes_of_selection(selection, dimensions, 2, head)
        assert {name for name in shapes if is_classifier(name)} == {*drawn}


def test_a_modernbert_with_half_a_head_is_refused(copied):
    with pytest.raises(SubtuneError, match=r"has no weights 'head\.dense\.weight'"):
        load(copied("modernbert", without("head.dense")))
