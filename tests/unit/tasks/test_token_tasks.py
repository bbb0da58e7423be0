"""Words with labels, and questions about a context: examples, predictions, and refusals."""

import json

import datasets
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn import functional
from transformers import BertForQuestionAnswering, PreTrainedTokenizerFast

from subtune.core.errors import SubtuneError
from subtune.data.corpora import read_questions, read_words
from subtune.data.sources import make_columns, task_reader
from subtune.models.encoder import load_encoder
from subtune.models.families import QUESTION_ANSWERING
from subtune.models.model_files import read_tokenizer
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.tasks.task import KINDS
from subtune.tasks.token_tasks import LONGEST_ANSWER, OUTSIDE
from subtune.training.evaluation import compute_split_logits
from tests.helpers import question_answering
from tests.helpers.examples import split_of

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
    real = read_words(ud_ewt_dir / "en_ewt-ud-dev.conllu", ["form"])
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


PIECES = ["<unk>", "▁", *"acts", "▁c", "▁ca", "▁cat"]
MERGES = [("▁", "c"), ("▁c", "a"), ("▁ca", "t")]
PREPENDED = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        # Llama 2 and the first Mistral; newer Llamas and T5; Gemma.
        (PREPENDED, None),
        (PREPENDED, pre_tokenizers.Split("▁", "merged_with_next")),
        (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        (None, pre_tokenizers.Metaspace(prepend_scheme="always")),
        (None, pre_tokenizers.Metaspace(prepend_scheme="never")),
        (normalizers.Replace(" ", "▁"), None),
    ],
)
def test_the_first_token_of_a_word_is_never_only_the_mark_of_its_start(normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.BPE(dict(zip(PIECES, range(9), strict=True)), MERGES))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    columns = encoded(tokenizer, [["cat", "cats"]])
    pieces = [tokenizer.id_to_token(number) for number in columns["input_ids"][0]]
    assert pieces == ["▁cat", "▁cat", "s"]
    assert columns["reads"][0].tolist() == [0, 1]


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
    return split_of(CHUNKS, rows, "f")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"words": [], "tags": []}, r"f: row 2: words: found \[\], expected at least 1"),
        ({"words": None, "tags": ["B"]}, "f: row 2: words: found None, expected a valid list"),
        ({"words": ["a", 1], "tags": ["B"]}, r"row 2: words\[1\]: found 1, expected text"),
        ({"words": ["\0"], "tags": ["B"]}, r"row 2: words\[0\]: found '\\x00', expected text"),
        ({"words": ["a"], "tags": [" "]}, r"row 2: tags\[0\]: found ' ', expected text"),
        ({"words": ["a"], "tag": ["B"]}, "f: row 2: no column 'tags', expected"),
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
    columns = make_columns(CHUNKS, rows, labelled=labelled, source="f")
    read = {"words": [["A", "3.50"], ["A b"]], "label": labels}
    assert columns == {"idx": [0, 1], "place": ["line 1", "line 3"], "set": [0, 1]} | read


def test_from_the_same_label_everywhere_nothing_is_learnt(tmp_path):
    columns = split({"words": ["a", "b"], "tags": ["I", "I"]}, {"words": ["c"], "tags": ["I"]})[:]
    with pytest.raises(SubtuneError, match=r"train\.jsonl: found the label 'I' of every word"):
        TOKENS.require_different_labels(CHUNKS, "train", tmp_path / "train.jsonl", columns)
    TOKENS.require_different_labels(CHUNKS, "validation", tmp_path / "dev.jsonl", columns)


@pytest.mark.parametrize("max_length", [3, 5, 64])
def test_predictions_are_recorded_and_scored_word_by_word(wordpiece, max_length):
    """This holds for every way of cutting. Logits are wrong at the third of four words."""
    sentences, labels = [["the"] * 4, ["dog"]], [[0, 1, 1, 2], [2]]
    columns = encoded(wordpiece, sentences, max_length, labels)
    examples = Examples(datasets.Dataset.from_dict(columns), "marked")
    predicted = TOKENS.predict(examples, np.eye(3)[[0, 1, 2, 2, 2]])
    table = TOKENS.prediction_table(examples, predicted)
    assert table.to_dict("list") == {
        "idx": [0, 0, 0, 0, 1],
        "word": [0, 1, 2, 3, 0],
        "label": [0, 1, 1, 2, 2],
        "prediction": [0, 1, 2, 2, 2],
    }
    scores = TOKENS.score(CHUNKS, table)
    assert scores["accuracy"] == pytest.approx(4 / 5)
    # All B are right, half of I, and two of three O.
    assert scores["f1_macro"] == pytest.approx((1 + 2 / 3 + 4 / 5) / 3)


SPAN = KINDS["span"]
TASK = TASKS["squad"]
CONTEXT = (
    "The film was shown in 1999 in Baden-Baden (Germany), where 4,000 people saw it; the "
    "naïve director's unforgettable e-mails to the mayor were read aloud."
)
QUESTION = "Where was the film shown?"


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return read_tokenizer(minilm)


@pytest.fixture(scope="module")
def theirs(tokenizer):
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


@pytest.fixture(scope="module")
def real(squad_dir):
    """Rows of the real files, every eighth question."""
    paths = sorted(squad_dir.glob("*.json"))
    return [row for path in paths for _, row in read_questions(TASKS["squad"], path, True)][::8]


def row_of(question=QUESTION, context=CONTEXT, answers=(), starts=()):
    """Return a row whose answers start at ``starts``, or where they first occur."""
    starts = starts or [context.index(text) for text in answers]
    answers = {"text": [*answers], "answer_start": starts}
    return {"question": question, "context": context, "answers": answers}


def encoded_questions(tokenizer, rows, max_length=384, doc_stride=128):
    columns = make_columns(TASK, [("", row) for row in rows], labelled=True, source="")
    return SPAN.encode(tokenizer, columns, max_length, doc_stride)


def examples_of(columns):
    return Examples(datasets.Dataset.from_dict(columns), "all")


@pytest.mark.parametrize(
    # A question that is repeated so often is cut as BERT's published code does.
    ("max_length", "doc_stride", "repeated"),
    [(384, 128, 1), (64, 16, 1), (96, 500, 1), (140, 30, 30)],
)
def test_windows_are_those_of_transformers(
    tokenizer, theirs, real, max_length, doc_stride, repeated
):
    long = row_of(f"{QUESTION} " * repeated, CONTEXT * 9)
    rows = [row_of(), row_of("What?", "the film"), long, *real[::9]]
    columns = encoded_questions(tokenizer, rows, max_length, doc_stride)
    number = 0
    for of_row, row in enumerate(rows):
        texts = row["question"], row["context"]
        expected = question_answering.windows(theirs, *texts, max_length, doc_stride)
        for window, mask in enumerate(expected["attention_mask"]):
            ids, types, offsets = (
                expected[name][window][: sum(mask)]
                for name in ("input_ids", "token_type_ids", "offset_mapping")
            )
            inside = [part == 1 for part in expected.sequence_ids(window)[: sum(mask)]]
            assert columns["row"][number] == of_row
            assert columns["input_ids"][number] == ids
            assert columns["token_type_ids"][number] == types
            for column, ends in zip(("first", "last"), zip(*offsets, strict=True), strict=True):
                assert columns[column][number] == np.where(inside, ends, OUTSIDE).tolist()
            number += 1
    assert number == len(columns["row"])


def test_a_context_without_tokens_has_a_window(tokenizer):
    rows = [row_of(context="\u200b", answers=["\u200b"]), row_of(answers=["1999"])]
    columns = encoded_questions(tokenizer, rows)
    assert columns["first"][0] == [OUTSIDE] * len(columns["input_ids"][0])
    assert columns["label"][0] == [0, 0]
    examples = examples_of(columns)
    spans = SPAN.predict(examples, np.zeros((sum(examples.lengths), 2)))
    assert spans[0].tolist() == [0, 0]
    assert SPAN.score(TASK, SPAN.prediction_table(examples, spans))["f1"] < 1


def labelled_texts(columns):
    """Return the label's first and last character in the context, for each window with the
    answer."""
    return [
        (columns["first"][number][first], columns["last"][number][last])
        if (first, last) != (0, 0)
        else None
        for number, (first, last) in enumerate(columns["label"])
    ]


@pytest.mark.parametrize(
    ("answer", "labelled"),
    [
        ("1999", "1999"),
        ("Baden-Baden (Germany)", "Baden-Baden (Germany)"),
        ("4,000", "4,000"),
        # Pieces of the tokenizer are not cut.
        ("999", "1999"),
        ("irector", "director"),
        ("e film was s", "The film was shown"),
    ],
)
def test_the_label_is_the_shortest_run_of_tokens_with_the_answer(tokenizer, answer, labelled):
    [(start, end)] = labelled_texts(encoded_questions(tokenizer, [row_of(answers=[answer])]))
    assert CONTEXT[start:end] == labelled


def test_the_label_is_where_the_first_answer_is_said_to_be(tokenizer):
    row = row_of(context="red blue red green", answers=["red", "green"], starts=[9, 13])
    assert labelled_texts(encoded_questions(tokenizer, [row])) == [(9, 12)]


@pytest.mark.slow
def test_the_best_span_of_all_windows_is_that_of_trying_every_pair(minilm, tokenizer, theirs, real):
    torch.manual_seed(0)
    model = BertForQuestionAnswering.from_pretrained(minilm).eval()
    head = {"weight": torch.randn(2, 384), "bias": torch.randn(2)}
    model.qa_outputs.load_state_dict(head)
    ours = load_encoder(minilm, QUESTION_ANSWERING, 2)
    ours.parameters.update({f"classifier.{name}": value for name, value in head.items()})
    rows = [row_of(), *real[:6]]
    expected = question_answering.best_spans(model, theirs, rows, 64, 16)
    examples = examples_of(encoded_questions(tokenizer, rows, 64, 16))
    assert len(examples) > 3 * len(rows)
    table = SPAN.prediction_table(
        examples, SPAN.predict(examples, compute_split_logits(ours, examples, "fp32")[0])
    )
    assert table["prediction"].tolist() == [span.text for span in expected]
    assert table["start"].tolist() == [span.start for span in expected]


def predicted(tokenizer, context, starts, ends, **windows):
    """Return the answer predicted from the logits of a context's tokens in each window."""
    examples = examples_of(encoded_questions(tokenizer, [row_of("Who?", context)], **windows))
    logits = np.zeros((sum(examples.lengths), 2))
    inside = np.concatenate([np.asarray(first) for first in examples.column("first")]) != OUTSIDE
    logits[~inside] = 99
    logits[inside] = np.stack([starts, ends], 1)
    [answer] = SPAN.prediction_table(examples, SPAN.predict(examples, logits))["prediction"]
    return answer


@pytest.mark.parametrize(
    ("starts", "ends", "windows", "answer"),
    [
        # Ties go to the first span.
        ([0] * 4, [0] * 4, {}, "a"),
        ([0] * 4, [0] * 4, {"max_length": 7, "doc_stride": 2}, "a"),
        ([0, 1, 1, 0], [0, 0, 1, 1], {}, "b c"),
        # No span ends before it begins.
        ([0, 0, 9, 0], [9, 0, 1, 0], {}, "c"),
    ],
)
def test_the_first_of_the_best_spans_is_predicted(tokenizer, starts, ends, windows, answer):
    assert predicted(tokenizer, "a b c d", starts, ends, **windows) == answer


def test_a_span_is_not_too_long(tokenizer):
    starts, ends = np.zeros(80), np.zeros(80)
    starts[3], ends[3 + LONGEST_ANSWER] = 5, 5
    # Both together are too long by one token.
    assert len(predicted(tokenizer, "a b " * 40, starts, ends).split()) <= LONGEST_ANSWER
    ends[3 + LONGEST_ANSWER - 1] = 4
    assert len(predicted(tokenizer, "a b " * 40, starts, ends).split()) == LONGEST_ANSWER


LABELS = [[2, 4], [0, 0], [1, 1], [3, 5]]
LENGTHS = [6, 4, 3, 9]


@pytest.mark.parametrize("runs", [1, 3])
def test_losses_are_those_of_each_window_alone(runs):
    """Transformers' loss is the mean of the cross-entropies of start and end, each over all
    tokens."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(runs, sum(LENGTHS), 2, generator=generator, dtype=torch.float64)
    example = torch.arange(4).repeat_interleave(torch.tensor(LENGTHS))
    losses = SPAN.losses(logits, torch.tensor(LABELS), example)
    for run in range(runs):
        expected = 0.0
        for window, label in zip(logits[run].split(LENGTHS), LABELS, strict=True):
            both = [functional.cross_entropy(window[:, i], torch.tensor(label[i])) for i in (0, 1)]
            expected = expected + sum(both) / 2
        torch.testing.assert_close(losses[run], expected, rtol=0, atol=1e-10)


def test_predictions_are_recorded_by_question_and_scores_are_means(tokenizer):
    rows = [row_of(answers=[answer]) for answer in ("1999", "Germany", "the mayor")]
    examples = examples_of(encoded_questions(tokenizer, rows, 32, 8))
    assert len(examples) > 6
    texts = ["1999", "(Germany)", "mayor were"]
    spans = np.array([(CONTEXT.index(text), CONTEXT.index(text) + len(text)) for text in texts])
    table = SPAN.prediction_table(examples, spans)
    assert table.to_dict("list") == {
        "idx": [0, 1, 2],
        "label": ["1999", "Germany", "the mayor"],
        "prediction": texts,
        "start": spans[:, 0].tolist(),
        "end": spans[:, 1].tolist(),
        "answers": [["1999"], ["Germany"], ["the mayor"]],
    }
    scores = SPAN.score(TASK, table)
    assert scores["exact_match"] == pytest.approx(2 / 3)
    assert scores["f1"] == pytest.approx((1 + 1 + 2 / 3) / 3)
