"""Words with labels: files, examples, predictions, and refusals."""

import json
import re
from pathlib import Path

import datasets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from subtune.core.errors import SubtuneError
from subtune.data.load import split_from_rows
from subtune.models.tokenizer import read_tokenizer
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.tasks.task import KINDS
from subtune.tasks.tokens import conll_sentences, treebank_paths, treebank_sentences

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
    real = conll_sentences(ud_ewt_dir / "en_ewt-ud-dev.conllu", ["form"])
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
    return split_from_rows(CHUNKS, rows, labelled=True, source="f")


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
    rows = TOKENS.read(CHUNKS, path, labelled)
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
    assert TOKENS.table(examples, predicted).to_dict("list") == {
        "idx": [0, 0, 0, 0, 1],
        "word": [0, 1, 2, 3, 0],
        "label": [0, 1, 1, 2, 2],
        "prediction": [0, 1, 2, 2, 2],
    }
    scores = TOKENS.score(CHUNKS, examples, predicted)
    assert scores["accuracy"] == pytest.approx(4 / 5)
    # All B are right, half of I, and two of three O.
    assert scores["f1_macro"] == pytest.approx((1 + 2 / 3 + 4 / 5) / 3)


def conllu_line(number: object, form: str, tag: str) -> str:
    """A line of CoNLL-U with this word and tag."""
    return f"{number}\t{form}\t_\t_\t{tag}\t_\t_\t_\t_\t_\n"


def written(directory: Path, content: str | bytes, ending: str) -> Path:
    path = directory / f"train.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


A_DOG = conllu_line(1, "A", "DT") + conllu_line(2, "dog", "NN")
DOGS = conllu_line(1, "Dogs", "NNS")
TEN = "id, form, lemma, upos, xpos, feats, head, deprel, deps, misc"

TABS = f"expected 10, separated by tabs ({TEN})"
COUNTED = "words are counted from 1, and a blank line ends a sentence"
# Contents of a CoNLL-U file whose words and tags are read, and the message after its name.
BROKEN_CONLLU = [
    (A_DOG + "3\tbarks\t_\t_\tVBZ\t_\t_\t_\t_\n", f"line 3: found 9 columns, {TABS}"),
    (conllu_line(1, "A", ""), "line 1: column 'xpos': found '', expected text"),
    (
        "# a comment counts\n" + conllu_line("1-2", "x", "_") + conllu_line(1, "  ", "DT"),
        "line 3: column 'form': found '  ', expected text",
    ),
    (A_DOG + DOGS, f"line 3: found the id '1', expected 3; {COUNTED}"),
]
SPACES = "expected 2, separated by spaces, as in line"
BROKEN_CONLL = [
    ("-DOCSTART-\n\nA DT\ndog NN\n\nDogs\n", f"line 6: found 1 columns, {SPACES} 3"),
    ("A DT\n\n# text = Dogs\nDogs NNS\n", f"line 3: found 4 columns, {SPACES} 1"),
    ("A\tDT\ndog\t\n", "line 2: column '2': found '', expected text"),
]
REFUSED = [
    *(("conllu", ["form", "xpos"], *case) for case in BROKEN_CONLLU),
    *(("conll", ["1", "2"], *case) for case in BROKEN_CONLL),
    ("conllu", ["xpso"], A_DOG, f"no such column: found 'xpso', expected one of {TEN}"),
]


@pytest.mark.parametrize(("ending", "columns", "content", "message"), REFUSED)
def test_broken_columns_are_refused_with_their_line(tmp_path, ending, columns, content, message):
    path = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        list(conll_sentences(path, columns))
    assert str(error.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("ending", "content", "expected"),
    [
        # Comments, lines that are not words, and no blank line after the last sentence.
        (
            "conllu",
            "# sent_id = 1\n"
            + conllu_line("1-2", "Adog", "_")
            + A_DOG
            + conllu_line("2.1", "is", "VBZ")
            + "\n# sent_id = 2\n"
            + DOGS.removesuffix("\n"),
            [("line 3", ["A", "dog"], ["DT", "NN"]), ("line 8", ["Dogs"], ["NNS"])],
        ),
        # Windows writes a byte-order mark; here, lines of white space are added.
        (
            "conllu",
            "\ufeff" + (A_DOG + " \t\n\n" + DOGS).replace("\n", "\r\n"),
            [("line 1", ["A", "dog"], ["DT", "NN"]), ("line 5", ["Dogs"], ["NNS"])],
        ),
        # A word with a space, the word `#`, and a word with one of Unicode's line ends.
        (
            "conllu",
            conllu_line(1, "10 000", "#")
            + conllu_line(2, "#", "#")
            + conllu_line(3, "a\u2028b", "X"),
            [("line 1", ["10 000", "#", "a\u2028b"], ["#", "#", "X"])],
        ),
        (
            "conll",
            "-DOCSTART- -X- O\n\nA x DT\ndog   y NN\n \nDogs z NNS\n",
            [("line 3", ["A", "dog"], ["DT", "NN"]), ("line 6", ["Dogs"], ["NNS"])],
        ),
        # Words between tabs may have spaces, and unused cells may be empty.
        ("txt", "10 000\t\tCD\n#\ty\t#\n", [("line 1", ["10 000", "#"], ["CD", "#"])]),
        ("conll", "1\u00a0000 x CD\n", [("line 1", ["1\u00a0000"], ["CD"])]),
    ],
)
def test_what_a_file_says_is_what_is_read(tmp_path, ending, content, expected):
    word, tag = ("form", "xpos") if ending == "conllu" else ("1", "3")
    read = conll_sentences(written(tmp_path, content, ending), [word, tag])
    assert [(place, row[word], row[tag]) for place, row in read] == expected


COUNTS = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}


@pytest.mark.parametrize("split", COUNTS)
def test_real_words_and_tags_are_those_of_the_lines_with_whole_ids(ud_ewt_dir, split):
    path = ud_ewt_dir / f"en_ewt-ud-{split}.conllu"
    word = re.compile(r"^\d+\t([^\t]+)\t[^\t]+\t[^\t]+\t([^\t]+)\t", flags=re.MULTILINE)
    expected = word.findall(path.read_text(encoding="utf-8"))
    rows = [row for _, row in conll_sentences(path, ["form", "xpos"])]
    assert (len(rows), len(expected)) == COUNTS[split]
    assert [pair for row in rows for pair in zip(*row.values(), strict=True)] == expected


BEES = """
( (S
    (NP-SBJ-1 (NNP Ada) )
    (VP (VBZ likes)
      (NP (NP (NNS bees) )
        (SBAR (WHNP-2 (-NONE- 0) )
          (S (NP (PRP she)) (VP (VBD kept) (NP (-NONE- *T*-2) ))))))
    (. .) ))
( (FRAG (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-)))
( (NP (-NONE- *) ))

( (INTJ (UH Oh) ) )
"""


def test_words_and_tags_are_read_as_they_stand_and_traces_left_out(tmp_path):
    assert list(treebank_sentences(written(tmp_path, BEES, "mrg"), ["form", "xpos"])) == [
        (
            "line 2",
            {
                "form": ["Ada", "likes", "bees", "she", "kept", "."],
                "xpos": ["NNP", "VBZ", "NNS", "PRP", "VBD", "."],
            },
        ),
        ("line 9", {"form": ["-LRB-", "1\\/2", "-RRB-"], "xpos": ["-LRB-", "CD", "-RRB-"]}),
        ("line 12", {"form": ["Oh"], "xpos": ["UH"]}),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("( (NP (NN a)) )\n( (NP (NN b) )\n", "line 2: found a tree that does not end, expected a"),
        ("( (NP (NN a) )\n( (NP (NN b)) )\n", "line 2: found '( ', expected words as (TAG word)"),
        ("( (NP (NN a)) )\n( (NP (NN b))) )\n", "line 2: found ')', expected words as (TAG word)"),
        ("( (NP\na (NN b)) )", "line 2: found 'a', expected words as (TAG word), and a ')' for"),
    ],
)
def test_a_broken_tree_is_refused_with_its_line(tmp_path, content, message):
    path = written(tmp_path, content, "mrg")
    with pytest.raises(SubtuneError) as error:
        list(treebank_sentences(path, ["form", "xpos"]))
    assert str(error.value).startswith(f"{path}: {message}")


NAMES = ("a.mrg", "b.mrg")


def treebank_in(root, missing=()):
    """A directory of sections, some left out, each with two files and a file of another kind."""
    for section in range(25):
        folder = root / f"{section:02}"
        folder.mkdir(parents=True)
        for name in ("readme.txt", *reversed(NAMES)):
            if section not in missing:
                (folder / name).write_text("( (INTJ (UH Oh) (. !)))")
    return root


@pytest.mark.parametrize("folder", ["", "wsj", "treebank_3/parsed/mrg/wsj"])
def test_splits_are_those_of_taggers_wherever_the_sections_lie(tmp_path, folder):
    root = treebank_in(tmp_path / folder)
    by_split = treebank_paths(tmp_path, "key")
    splits = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}
    assert by_split == {
        split: tuple(root / f"{number:02}" / name for number in numbers for name in NAMES)
        for split, numbers in splits.items()
    }


def test_sections_that_are_missing_are_named(tmp_path):
    root = treebank_in(tmp_path / "parsed" / "mrg" / "wsj", missing=(4, 12, 20))
    message = f"key: {root}: found no .mrg files of section 04, 12, 20, expected those of the Wall"
    with pytest.raises(SubtuneError, match=f"^{re.escape(message)}"):
        treebank_paths(tmp_path, "key")
