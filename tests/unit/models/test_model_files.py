"""Files of models: weights, tokenizers, and copies of both."""

import json
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel

from subtune.core.errors import SubtuneError
from subtune.data.load import tokenize
from subtune.methods.roles import is_classifier
from subtune.models import model_files
from subtune.models.encoder import load_encoder, with_new_classifier
from subtune.models.families import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION
from subtune.models.forward import logits
from subtune.models.model_config import MANY, choose_head, find_pooling, longest_text
from subtune.models.model_files import TOKENIZER, fetch_model, read_tokenizer, unknown_share
from subtune.models.packing import pack
from subtune.runs.spec import ModelSpec
from subtune.tasks import TASKS
from tests.helpers import examples


def test_a_models_version_is_of_its_files_in_one_order(directory):
    """Another order would change the ids of all recorded runs."""
    for name in ("vocab.txt", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    names = [path.name for path in model_files.list_model_files(directory)]
    in_order = ["config.json", "model.safetensors", "tokenizer.json"]
    assert names == [*in_order, "tokenizer_config.json", "vocab.txt"]


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
    shards = model_files.list_weight_files(directory)
    change(shards, directory / model_files.INDEX)
    with pytest.raises(SubtuneError, match=re.escape(problem.format(last=shards[-1].name))):
        model_files.list_model_files(directory)


@pytest.mark.parametrize("content", ["{", '{"model": {}}'])
def test_a_tokenizer_that_cannot_be_read_is_one_line(content, directory):
    (directory / TOKENIZER).write_text(content)
    with pytest.raises(SubtuneError, match=r"tokenizer\.json is not a readable tokenizer"):
        read_tokenizer(directory)


def test_words_behind_the_last_row_matter_where_a_text_has_them(copied):
    directory, task = copied("llama"), TASKS["sst2"]
    tokenizer = Tokenizer.from_file(str(directory / TOKENIZER))
    tokenizer.add_special_tokens(["[BEHIND]"])
    tokenizer.save(str(directory / TOKENIZER))
    assert model_files.list_model_files(directory)
    rows = examples.rows_of(task)
    assert tokenize(task, rows, directory, 24)
    rows["train"] = rows["train"].map(lambda row: row | {"text_a": "a [BEHIND] film"})
    with pytest.raises(SubtuneError, match="found a token with id 45, expected ids below 45"):
        tokenize(task, rows, directory, 24)


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "modernbert", "max_position_embeddings": 8192}, 8192),
        ({"model_type": "bloom"}, MANY),
        *(
            ({"model_type": name, "max_position_embeddings": 514, "pad_token_id": 1}, 512)
            for name in ("mpnet", "camembert", "longformer", "xlm-roberta-xl", "esm")
        ),
    ],
)
def test_the_longest_text_is_told_by_the_configuration(fields, longest):
    assert longest_text(fields) == longest


MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]


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
    stored = {"modules.json": json.dumps(modules), "1_Pooling/config.json": json.dumps(pooling)}
    assert find_pooling(stored.get) == found


@pytest.mark.parametrize("modules", ["{", '[{"path": "1_Pooling"}]'])
def test_a_list_of_modules_that_is_none_is_one_line(modules):
    with pytest.raises(SubtuneError, match=r"^modules\.json or the config\.json .* cannot be read"):
        find_pooling({"modules.json": modules}.get)


@pytest.mark.parametrize(
    ("pooling", "task", "expected"),
    [
        ("mean", "sst2", MEAN_CLASSIFICATION),
        ("first", "sst2", SEQUENCE_CLASSIFICATION),
        (None, "sst2", SEQUENCE_CLASSIFICATION),
        ("mean", "squad", TASKS["squad"].of_kind.head),
        ("mean", "ud_ewt", TASKS["ud_ewt"].of_kind.head),
    ],
)
def test_only_a_head_of_one_text_reads_the_mean(pooling, task, expected):
    assert choose_head(pooling, TASKS[task].of_kind.head, "bert") == expected


ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]


def logits_of_rows(model, reads=None):
    rows = examples.packable(ROWS, [0, 1, 0, 1], reads=reads)
    with torch.inference_mode():
        return logits(model, pack(rows, np.arange(4), model))[0]


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "distilbert", "deberta"])
def test_the_mean_is_a_linear_layer_on_the_mean_of_the_last_hidden_states(family, directory_of):
    model = with_new_classifier(
        load_encoder(directory_of(family), SEQUENCE_CLASSIFICATION, 3, "mean"), 0
    )
    assert model.head == MEAN_CLASSIFICATION
    weight, bias = (value for name, value in model.parameters.items() if is_classifier(name))
    theirs = AutoModel.from_pretrained(directory_of(family), dtype=torch.float32).eval()
    with torch.inference_mode():
        # A text alone has no padding.
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ROWS]
    expected = torch.stack(means) @ weight.T + bias
    torch.testing.assert_close(logits_of_rows(model, "all"), expected, rtol=0, atol=1e-6)


def test_where_transformers_class_can_pool_it_does(directory_of):
    computed = {}
    for pooling in ("first", "mean", None):
        model = load_encoder(directory_of("modernbert"), SEQUENCE_CLASSIFICATION, 2, pooling)
        assert model.head == SEQUENCE_CLASSIFICATION
        assert model.config.classifier_pooling == {"mean": "mean"}.get(pooling, "cls")
        computed[pooling] = logits_of_rows(with_new_classifier(model, 0))
    assert torch.equal(computed["first"], computed[None])
    assert not torch.allclose(computed["first"], computed["mean"])


@pytest.fixture
def fetched(tmp_path):
    """A function that copies a local model as it was planned; after planning, ``edit`` is called"""

    def fetch_copy(directory, edit=lambda: None):
        spec = ModelSpec(source="files", version=model_files.model_version(directory))
        edit()
        fetch_model(spec, str(directory), tmp_path / "copy")
        return tmp_path / "copy"

    return fetch_copy


def test_a_local_model_is_copied_with_its_card(directory, fetched):
    card = "---\nlicense: mit\n---\n"
    (directory / "README.md").write_text(card)
    copy = fetched(directory)
    assert model_files.model_version(copy) == model_files.model_version(directory)
    assert (copy / "README.md").read_text() == card


def test_a_local_model_that_was_edited_after_planning_is_refused(directory, fetched):
    path = directory / "config.json"
    edited = path.read_text().replace("{", '{"note": "edited", ', 1)
    with pytest.raises(SubtuneError, match=r"mine: changed since this was planned; call snakemake"):
        fetched(directory, lambda: path.write_text(edited))


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_weights_in_several_files_are_copied(family, directory_of, in_shards, fetched):
    whole, in_parts = (
        load_encoder(of, SEQUENCE_CLASSIFICATION, 2).parameters
        for of in (directory_of(family), fetched(in_shards(family)))
    )
    assert all(torch.equal(value, in_parts[name]) for name, value in whole.items())


def test_a_tokenizer_is_made_of_a_vocabulary(directory, fetched):
    """Older models have a vocabulary, and no file for the whole tokenizer."""
    whole = Tokenizer.from_file(str(directory / TOKENIZER))
    (directory / TOKENIZER).unlink()
    words = sorted(whole.get_vocab(), key=whole.token_to_id)
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    made = Tokenizer.from_file(str(fetched(directory) / TOKENIZER))
    for pair in (("a good film",), ("The dog sleeps.", "he sings")):
        assert made.encode(*pair).ids == whole.encode(*pair).ids


TEXTS = ["good film", "ฟิล์ม ดี"]
WORDS = {"?": 0, "good": 1, "film": 2}
PIECES = [("<unk>", 0.0), ("▁", -2.0), ("▁good", -1.0), ("▁film", -1.0)]
BYTES = {letter: n for n, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}


def split(model, how):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = how
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "share"),
    [
        (split(models.WordLevel(WORDS, "?"), pre_tokenizers.WhitespaceSplit()), 0.5),
        (split(models.Unigram(PIECES, 0), pre_tokenizers.Metaspace()), 0.5),
        (split(models.BPE(BYTES, []), pre_tokenizers.ByteLevel()), 0),
    ],
)
def test_unknown_tokens_are_counted(tokenizer, share):
    assert unknown_share(tokenizer, TEXTS, "mine") == share


@pytest.mark.parametrize(
    ("files", "fields", "problem"),
    [
        (["spm.model"], {}, "has no token for any word of 'good film' and others"),
        (["vocab.txt", "bpe.codes"], {"model_type": "roberta"}, "has no token for any word"),
        (["vocab.txt", "bpe.codes"], {"tokenizer_class": "BertweetTokenizer"}, "has no attribute"),
        (["spiece.model"], {"model_type": "t5"}, "need the packages sentencepiece and protobuf: "),
    ],
)
def test_files_that_make_no_tokenizer_with_words_are_refused(files, fields, problem, copied):
    directory = copied(**fields)
    (directory / TOKENIZER).unlink()
    for name in files:
        (directory / name).write_text("good 9\nfilm 8\n")
    with pytest.raises(SubtuneError, match=rf"^{directory}.* {problem}"):
        unknown_share(read_tokenizer(directory), TEXTS, directory)
