"""Tokenizers of older formats, and the trial of a tokenizer on texts."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from subtune.core.errors import SubtuneError
from subtune.models.tokenizer import TOKENIZER, read_tokenizer, unknown_share

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
