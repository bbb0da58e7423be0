"""A model's files: versions, weights in shards, tokenizers, copies in the results."""

import re

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from subtune.core.errors import SubtuneError
from subtune.data.load import tokenize
from subtune.models import model_files
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.model_files import TOKENIZER, fetch_model, read_tokenizer, unknown_share
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
        (lambda shards, index: shards[-1].unlink(), "has no file '{last}'"),
        (
            lambda shards, index: index.write_text('{"weight_map": {"a": "../b"}}'),
            "has no file '../b'",
        ),
        (lambda shards, index: index.write_text("[]"), "does not list the files of the weights"),
    ],
)
def test_files_that_are_not_those_of_the_index_are_refused(change, problem, in_shards):
    directory = in_shards("bert")
    shards = model_files.list_weight_files(directory)
    change(shards, directory / model_files.WEIGHTS_INDEX)
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
    with pytest.raises(SubtuneError, match=r"mine: the model has changed since planning"):
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
        (["spm.model"], {}, "has no token for any word of texts such as 'good film'"),
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
