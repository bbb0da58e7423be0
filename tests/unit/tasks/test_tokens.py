"""Words with labels: examples, predictions, and refusals."""

import json

import datasets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from subtune.core.errors import SubtuneError
from subtune.data.load import make_split
from subtune.data.sources import task_reader
from subtune.data.words import conllu_sentences
from subtune.models.tokenizer import read_tokenizer
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.tasks.task import KINDS

TOKENS = KINDS["tokens"]
CHUNKS = Task(
    name="chunks", title="C", kind="tokens", text=("words",), label="tags",
    labels=("B", "I", "O"), metrics=("accuracy", "f1_macro"),
)  # fmt: skip
HAND_MADE = [
    ["Don't", "stop", "!"],
    ["e-mail", "me@example.com", "…", "naïve", "Ünïcödé", "東京", "🙂"],
    ["$", "1,000.50", "``", "''", "-LRB-"],
    ["New York", "antidisestablishmentarianism"],
    ["a"],
]


@pytest.fixture(scope="module")
def wordpiece(minilm):
    return read_tokenizer(minilm)


@pytest.fixture(scope="module")
def bytes_pieces():
    """A byte-level BPE like RoBERTa's, with so few pieces that most words have several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(words) for words in HAND_MADE] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), add_prefix_space=False
    )
    return tokenizer


def encoded(tokenizer, sentences, max_length=128, labels=None):
    labels = labels or [list(range(len(words))) for words in sentences]
    rows = {"idx": list(range(len(sentences))), "words": sentences, "label": labels}
    return TOKENS.encode(tokenizer, rows, max_length, None)


def test_words_are_encoded_as_transformers_encodes_them(wordpiece, bytes_pieces, ud_ewt_dir):
    with_spaces = Tokenizer.from_str(bytes_pieces.to_str())
    # This is what transformers does with add_prefix_space.
    with_spaces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    real = conllu_sentences(ud_ewt_dir / "en_ewt-ud-dev.conllu", ["form"])
    sentences = HAND_MADE + [row["form"] for _, row in real][::10]
    for tokenizer, its_theirs in ((wordpiece, wordpiece), (bytes_pieces, with_spaces)):
        columns = encoded(tokenizer, sentences, max_length=512)
        assert columns["row"] == list(range(len(sentences)))
        theirs = PreTrainedTokenizerFast(tokenizer_object=its_theirs)
        for number, words in enumerate(sentences):
            expected = theirs(words, is_split_into_words=True, return_token_type_ids=True)
            firsts = [expected.word_ids().index(word) for word in range(len(words))]
            assert columns["input_ids"][number] == expected["input_ids"]
            assert columns["reads"][number].tolist() == firsts
            assert columns["label"][number] == list(range(len(words)))
            assert columns["token_type_ids"][number] == expected["token_type_ids"]


words_of_any_length = st.lists(
    st.text("abcdefgh", min_size=1, max_size=14), min_size=1, max_size=30
)


@settings(max_examples=60)
@given(
    sentences=st.lists(words_of_any_length, min_size=1, max_size=4), max_length=st.integers(4, 20)
)
def test_each_word_is_in_one_example_and_in_its_order(bytes_pieces, sentences, max_length):
    columns = encoded(bytes_pieces, sentences, max_length)
    assert max(map(len, columns["input_ids"])) <= max_length
    room = max_length - 2
    words = []
    parts = (columns[name] for name in ("row", "input_ids", "reads", "label"))
    for row, ids, reads, labels in zip(*parts, strict=True):
        words += [(row, word) for word in labels]
        pieces = [
            bytes_pieces.encode(f" {sentences[row][word]}", add_special_tokens=False).ids[:room]
            for word in labels
        ]
        assert ids == [0, *(piece for word in pieces for piece in word), 1]
        assert [ids[first] for first in reads] == [word[0] for word in pieces]
    assert words == [(row, w) for row, words in enumerate(sentences) for w in range(len(words))]


@pytest.mark.parametrize("word", ["\x07", "\u200b", "\u00ad"])
@pytest.mark.parametrize("added", [{}, {"added_tokens": []}])
def test_a_word_without_pieces_is_the_unknown_token(wordpiece, word, added):
    wordpiece = Tokenizer.from_str(json.dumps(json.loads(wordpiece.to_str()) | added))
    assert wordpiece.encode(word, add_special_tokens=False).ids == []
    columns = encoded(wordpiece, [["the", word, "a"]])
    assert columns["reads"][0].tolist() == [1, 2, 3]
    assert columns["input_ids"][0][2] == wordpiece.token_to_id("[UNK]")


def split(*rows):
    return make_split(CHUNKS, rows, labelled=True, source="f")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"words": [], "tags": []}, r"f: row 2: words: found \[\], expected at least 1"),
        ({"words": None, "tags": ["B"]}, "f: row 2: words: found None, expected a valid list"),
        ({"words": ["a", 1], "tags": ["B"]}, r"row 2: words\[1\]: found 1, expected text"),
        ({"words": ["\0"], "tags": ["B"]}, r"row 2: words\[0\]: found '\\x00', expected text"),
        ({"words": ["a"], "tags": [" "]}, r"row 2: tags\[0\]: found ' ', expected text"),
        ({"words": ["a"], "tag": ["B"]}, "f: row 2: no such column: found 'tags', expected"),
    ],
)
def test_a_row_that_is_none_of_the_task_is_refused_with_its_place(row, message):
    with pytest.raises(SubtuneError, match=message):
        split({"words": ["a"], "tags": ["B"]}, row)


@pytest.mark.parametrize(("labelled", "labels"), [(True, [[0, 2], [1]]), (False, [[-1, -1], [-1]])])
def test_json_lines_are_read_as_they_stand(tmp_path, labelled, labels):
    """The files may have a byte-order mark, blank lines, numbers as texts, and capital endings."""
    path = tmp_path / "train.JSONL"
    first = '\ufeff{"words": ["A", 3.50], "tags": ["B", "O"]}'
    path.write_text(first + '\n\n{"words": ["A b"], "tags": ["I"]}')
    rows = task_reader(CHUNKS).read(CHUNKS, path, labelled)
    columns = TOKENS.from_rows(CHUNKS, rows, labelled=labelled, source="f")
    assert columns == {"idx": [0, 1], "words": [["A", "3.50"], ["A b"]], "label": labels}


def test_from_the_same_label_everywhere_nothing_is_learnt(tmp_path):
    columns = split({"words": ["a", "b"], "tags": ["I", "I"]}, {"words": ["c"], "tags": ["I"]})[:]
    with pytest.raises(SubtuneError, match=r"train\.jsonl: found the label 'I' of every word"):
        TOKENS.require_sound(CHUNKS, "train", tmp_path / "train.jsonl", columns)
    TOKENS.require_sound(CHUNKS, "validation", tmp_path / "dev.jsonl", columns)


@pytest.mark.parametrize("max_length", [3, 5, 64])
def test_predictions_are_recorded_and_scored_word_by_word(wordpiece, max_length):
    """This holds for every way of cutting. Logits are wrong at the third of four words."""
    sentences, labels = [["the"] * 4, ["dog"]], [[0, 1, 1, 2], [2]]
    columns = encoded(wordpiece, sentences, max_length, labels)
    examples = Examples(datasets.Dataset.from_dict(columns), "marked")
    predicted = TOKENS.predict(examples, np.eye(3)[[0, 1, 2, 2, 2]])
    assert TOKENS.prediction_table(examples, predicted).to_dict("list") == {
        "idx": [0, 0, 0, 0, 1],
        "word": [0, 1, 2, 3, 0],
        "label": [0, 1, 1, 2, 2],
        "prediction": [0, 1, 2, 2, 2],
    }
    scores = TOKENS.score(CHUNKS, examples, predicted)
    assert scores["accuracy"] == pytest.approx(4 / 5)
    # All B are right, half of I, and two of three O.
    assert scores["f1_macro"] == pytest.approx((1 + 2 / 3 + 4 / 5) / 3)
