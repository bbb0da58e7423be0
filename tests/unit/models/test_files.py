"""A model's files: refusals, versions, weights in shards, the pooling that they say."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.families.base import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION, is_classifier
from subtune.models import files
from subtune.models.encoder import load_model, with_new_classifier
from subtune.models.files import fetch, head_by, own_pooling, pooling_in
from subtune.models.forward import logits, pack
from subtune.selections.specs import ModelSpec
from subtune.tasks import TASKS
from subtune.training.fisher import fisher_information
from tests.helpers import examples


@pytest.fixture
def directory(copied):
    return copied()


def test_a_local_model_is_copied_as_it_was_planned(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    (directory / "README.md").write_text("---\nlicense: mit\n---\n")
    fetch(spec, str(directory), tmp_path / "copy")
    assert files.version_of(tmp_path / "copy") == spec.version
    assert (tmp_path / "copy" / "README.md").read_text().startswith("---\nlicense: mit")


def test_a_local_model_that_was_edited_after_planning_is_refused(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    path = directory / "config.json"
    path.write_text(path.read_text().replace("{", '{"note": "edited", ', 1))
    with pytest.raises(SubtuneError, match=r"mine: changed since this was planned; call snakemake"):
        fetch(spec, str(directory), tmp_path / "copy")


def test_a_models_version_is_of_its_files_in_one_order(directory):
    """Another order would change the ids of all recorded runs."""
    for name in ("vocab.txt", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    names = [path.name for path in files.files_of(directory)]
    in_order = ["config.json", "model.safetensors", "tokenizer.json"]
    assert names == [*in_order, "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def in_shards(copied):
    """A function from a family to its tiny model, with weights in several files."""

    def write(family):
        directory = copied(family)
        whole = AutoModelForSequenceClassification.from_pretrained(directory)
        (directory / files.WEIGHTS).unlink()
        whole.save_pretrained(directory, max_shard_size="20KB")
        return directory

    return write


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_weights_in_several_files_are_those_in_one(family, tiny, in_shards, tmp_path):
    directory = in_shards(family)
    assert len(files.weights_of(directory)) > 1
    spec = ModelSpec(source="files", version=files.version_of(directory))
    fetch(spec, str(directory), tmp_path / "copy")
    whole, in_parts = (
        load_model(of, SEQUENCE_CLASSIFICATION, 2) for of in (tiny(family), tmp_path / "copy")
    )
    for name, value in whole.parameters.items():
        assert torch.equal(value, in_parts.parameters[name]), name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda shards, index: shards[-1].unlink(), "has no '{last}', which model.safetensors"),
        (lambda shards, index: index.write_text('{"weight_map": {"a": "../b"}}'), "has no '../b'"),
        (lambda shards, index: index.write_text("[]"), "does not say where weights are"),
    ],
)
def test_files_that_are_not_those_of_the_index_are_refused(change, problem, in_shards):
    directory = in_shards("bert")
    shards = files.weights_of(directory)
    change(shards, directory / files.INDEX)
    with pytest.raises(SubtuneError, match=re.escape(problem.format(last=shards[-1].name))):
        files.files_of(directory)


def test_a_tokenizer_is_made_of_a_vocabulary(directory, tmp_path):
    """Older models have a vocabulary, and no file for the whole tokenizer."""
    made_by_hand = Tokenizer.from_file(str(directory / files.TOKENIZER))
    (directory / files.TOKENIZER).unlink()
    words = sorted(made_by_hand.get_vocab(), key=made_by_hand.token_to_id)
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    spec = ModelSpec(source="files", version=files.version_of(directory))
    fetch(spec, str(directory), tmp_path / "copy")
    made = Tokenizer.from_file(str(tmp_path / "copy" / files.TOKENIZER))
    for pair in (("a good film",), ("The dog sleeps.", "he sings")):
        assert made.encode(*pair).ids == made_by_hand.encode(*pair).ids


def test_a_vocabulary_that_makes_no_tokenizer_is_one_line(directory, tmp_path):
    (directory / files.TOKENIZER).unlink()
    (directory / "tokenizer.model").write_bytes(b"\x00\x01")
    (directory / "config.json").write_text('{"model_type": "llama", "hidden_size": 8}')
    spec = ModelSpec(source="files", version=files.version_of(directory))
    with pytest.raises(
        SubtuneError, match=r"copy has no .*, and none can be made of tokenizer\.model"
    ):
        fetch(spec, str(directory), tmp_path / "copy")


MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]


def saying(modules, pooling):
    files = {"modules.json": json.dumps(modules), "1_Pooling/config.json": json.dumps(pooling)}
    return files.get


@pytest.mark.parametrize(
    ("modules", "pooling", "found"),
    [
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        (MODULES, {"pooling_mode": "mean"}, "mean"),
        (MODULES, {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, None),
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
        (MODULES, {"pooling_mode": "lasttoken"}, None),
        (MODULES[:1], {}, None),
    ],
)
def test_files_of_sentence_transformers_say_the_pooling(modules, pooling, found):
    assert own_pooling(saying(modules, pooling)) == found


def test_a_model_without_these_files_has_no_pooling_of_its_own(tiny_bert, minilm):
    assert pooling_in(tiny_bert) is None
    assert pooling_in(minilm) == "mean"


@pytest.mark.parametrize("modules", ["{", "[1]", '[{"path": "1_Pooling"}]'])
def test_a_list_of_modules_that_is_none_is_one_line(modules):
    with pytest.raises(SubtuneError, match=r"^modules\.json or the config\.json .* cannot be read"):
        own_pooling({"modules.json": modules}.get)


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_the_first_token_of_a_decoder_is_refused(family, directory_of):
    problem = "pooling: found 'first' for a decoder, expected none: only the last token"
    with pytest.raises(SubtuneError, match=problem):
        load_model(directory_of(family), SEQUENCE_CLASSIFICATION, 2, "first")


def test_other_heads_read_what_they_read(tiny_bert):
    head = TASKS["ud_ewt"].of_kind.head
    assert load_model(tiny_bert, head, 3, "mean").head == head


@pytest.fixture
def packed():
    return examples.packable(ROWS, [0, 1, 0, 1], reads="all")


@pytest.mark.parametrize(
    "family", ["tiny_bert", "tiny_roberta", "mpnet", "distilbert", "electra", "deberta"]
)
def test_the_mean_is_a_linear_layer_on_the_mean_of_the_last_hidden_states(
    family, packed, request, directory_of
):
    packed_family = family.startswith("tiny_")
    directory = request.getfixturevalue(family) if packed_family else directory_of(family)
    model = with_new_classifier(load_model(directory, SEQUENCE_CLASSIFICATION, 3, "mean"), 0)
    assert model.head == MEAN_CLASSIFICATION
    weight, bias = (value for name, value in model.parameters.items() if is_classifier(name))
    theirs = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.inference_mode():
        computed = logits(model, pack(packed, np.arange(4), model))[0]
        # A text alone has no padding.
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ROWS]
    expected = torch.stack(means) @ weight.T + bias
    assert computed.numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_where_transformers_class_can_pool_it_does(packed, directory_of):
    computed = {}
    for pooling in ("first", "mean", None):
        model = load_model(directory_of("modernbert"), SEQUENCE_CLASSIFICATION, 2, pooling)
        assert model.head == SEQUENCE_CLASSIFICATION
        model = with_new_classifier(model, 0)
        row = examples.packable(ROWS, [0, 1, 0, 1])
        computed[pooling] = logits(model, pack(row, np.arange(4), model))[0]
        assert model.config.classifier_pooling == {"mean": "mean"}.get(pooling, "cls")
    assert torch.equal(computed["first"], computed[None])
    assert not torch.allclose(computed["first"], computed["mean"])


@pytest.mark.parametrize("family", ["tiny_bert", "mpnet"])
def test_fisher_information_of_the_mean_is_the_mean_of_squared_gradients(
    family, request, directory_of
):
    task = TASKS["sst2"]
    directory = request.getfixturevalue(family) if family == "tiny_bert" else directory_of(family)
    tokens = examples.tokens(task, directory, rows=6)["train"]
    model = load_model(directory, SEQUENCE_CLASSIFICATION, 2, "mean")
    found = fisher_information(model, tokens, task)
    model = with_new_classifier(model, 0)
    rows = examples.examples_of(task, {"train": tokens, "validation": tokens}, model.head)["train"]
    leaves = {n: v.clone().requires_grad_(True) for n, v in model.parameters.items()}
    changed = replace(model, parameters=leaves)
    expected = dict.fromkeys(leaves, 0.0)
    for number in range(len(rows)):
        batch = pack(rows, np.array([number]), changed)
        nats = -logits(changed, batch)[0].log_softmax(1)[0, batch.labels[0]]
        gradients = torch.autograd.grad(nats, list(leaves.values()), allow_unused=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            expected[name] += 0 if gradient is None else gradient.square().sum().item() / len(rows)
    for _, row in found.sums.iterrows():
        if not row["parameter"].endswith("key.bias"):
            assert row["information"] == pytest.approx(expected[row["parameter"]], rel=1e-4)


def test_the_head_is_told_by_the_configuration():
    fields = {"model_type": "bert"}
    assert head_by("mean", SEQUENCE_CLASSIFICATION, fields) == MEAN_CLASSIFICATION
    assert head_by("first", SEQUENCE_CLASSIFICATION, fields) == SEQUENCE_CLASSIFICATION
    assert head_by(None, SEQUENCE_CLASSIFICATION, fields) == SEQUENCE_CLASSIFICATION
    assert head_by("mean", TASKS["squad"].of_kind.head, fields) == TASKS["squad"].of_kind.head
