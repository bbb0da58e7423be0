"""Sentences of labelled words, and questions."""

import copy
import json
import re
from functools import partial
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.corpora import read_questions, read_words
from subtune.tasks import TASKS


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
COUNTED = "ids count the words of a sentence from 1, and a blank line ends a sentence"
# Contents of a CoNLL-U file whose words and tags are read, and the message after its name.
BROKEN_CONLLU = [
    (A_DOG + "3\tbarks\t_\t_\tVBZ\t_\t_\t_\t_\n", f"line 3: found 9 columns, {TABS}"),
    ("# a comment counts\n" + A_DOG + DOGS, f"line 4: found the id '1', expected 3; {COUNTED}"),
]
SPACES = "expected 2, separated by spaces, as in line"
BROKEN_CONLL = [
    ("-DOCSTART-\n\nA DT\ndog NN\n\nDogs\n", f"line 6: found 1 columns, {SPACES} 3"),
    ("A DT\n\n# text = Dogs\nDogs NNS\n", f"line 3: found 4 columns, {SPACES} 1"),
]
REFUSED = [
    *(("conllu", ["form", "xpos"], *case) for case in BROKEN_CONLLU),
    *(("conll", ["1", "2"], *case) for case in BROKEN_CONLL),
    ("conllu", ["xpso"], A_DOG, f"no column 'xpso', expected one of {TEN}"),
]


@pytest.mark.parametrize(("ending", "columns", "content", "message"), REFUSED)
def test_broken_columns_are_refused_with_their_line(tmp_path, ending, columns, content, message):
    path = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        list(read_words(path, columns))
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
    read = read_words(written(tmp_path, content, ending), [word, tag])
    assert [(place, row[word], row[tag]) for place, row in read] == expected


COUNTS = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}


@pytest.mark.parametrize("split", COUNTS)
def test_real_words_and_tags_are_those_of_the_lines_with_whole_ids(ud_ewt_dir, split):
    path = ud_ewt_dir / f"en_ewt-ud-{split}.conllu"
    word = re.compile(r"^\d+\t([^\t]+)\t[^\t]+\t[^\t]+\t([^\t]+)\t", flags=re.MULTILINE)
    expected = word.findall(path.read_text(encoding="utf-8"))
    rows = [row for _, row in read_words(path, ["form", "xpos"])]
    assert (len(rows), len(expected)) == COUNTS[split]
    assert [pair for row in rows for pair in zip(*row.values(), strict=True)] == expected


BEES = "Ada kept bees. Her bees liked clover."
KEPT = {
    "id": "q1",
    "question": "What did Ada keep?",
    "answers": [{"text": "bees", "answer_start": 9}],
}
PARAGRAPH = {"context": BEES, "qas": [KEPT]}
FILE = {"version": "1.1", "data": [{"title": "Bees", "paragraphs": [PARAGRAPH]}]}


def written_json(directory, content):
    path = directory / "train.json"
    path.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content, allow_nan=True).encode()
    )
    return path


def changed(*place: object, **fields: object) -> dict:
    """Return a copy of the file with changed fields in one object; None removes a field."""
    file = copy.deepcopy(FILE)
    of = file
    for key in place:
        of = of[key]
    of.update(fields)
    for name in [name for name, value in fields.items() if value is None]:
        del of[name]
    return file


of_paragraph = partial(changed, "data", 0, "paragraphs", 0)
of_question = partial(of_paragraph, "qas", 0)
of_answer = partial(of_question, "answers", 0)

AT_PARAGRAPH = "data[0].paragraphs[0]"
AT_QUESTION = f"{AT_PARAGRAPH}.qas[0]"
AT_ANSWER = f"{AT_QUESTION}.answers[0]"
# Contents, and the message after the file's name.
REFUSED = [
    (b"", "not valid JSON (EOF while parsing a value at line 1 column 0)"),
    ({"version": "1.1"}, "data: missing, expected a value"),
    (changed(data=["Bees"]), "data[0]: found 'Bees', expected a mapping (key: value)"),
    (of_paragraph(context=" \n"), f"{AT_PARAGRAPH}.context: found ' \\n', expected text"),
    (of_question(id=1), f"{AT_QUESTION}.id: found 1, expected text"),
    (
        of_question(answers=[]),
        "question 'q1': found no answer; questions without an ",
    ),
    (
        of_answer(answer_start=20),
        "question 'q1': found 'ees ' at character 20 of the context, expected the answer 'bees'",
    ),
    (of_answer(answer_start=-1), f"{AT_ANSWER}.answer_start: found -1, expected greater than or"),
    (of_answer(answer_start=9.0), f"{AT_ANSWER}.answer_start: found 9.0, expected a valid integer"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_broken_file_is_refused_with_its_place(tmp_path, content, message):
    path = written_json(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(read_questions(TASKS["squad"], path, True))
    assert str(error.value).startswith(f"{path}: {message}")


def test_questions_have_their_context_and_all_their_answers(tmp_path):
    answers = [{"text": "bees", "answer_start": 9}, {"text": "Her bees", "answer_start": 15}]
    second = {"id": "q2", "question": "What?", "answers": answers, "is_impossible": False}
    path = written_json(tmp_path, of_paragraph(qas=[KEPT, second]))
    (_, first), (place, row) = read_questions(TASKS["squad"], path, True)
    assert first["answers"] == {"text": ["bees"], "answer_start": [9]}
    assert place == "question 'q2'"
    assert row == {
        "question": "What?",
        "context": BEES,
        "answers": {"text": ["bees", "Her bees"], "answer_start": [9, 15]},
    }


def test_questions_to_predict_need_no_answers(tmp_path):
    off = [{"text": "bees", "answer_start": 10}]
    unread = [of_paragraph(qas=[{**KEPT, "answers": answers}]) for answers in (None, [], off)]
    for content in (of_question(answers=None), *unread):
        ((_, row),) = read_questions(TASKS["squad"], written_json(tmp_path, content), False)
        assert row["answers"] == {"text": [], "answer_start": []}


@pytest.mark.parametrize(("split", "count"), [("train", 1_181), ("dev", 354)])
def test_real_questions_are_all_read(squad_dir, split, count):
    rows = [
        row for _, row in read_questions(TASKS["squad"], squad_dir / f"{split}-v1.1.json", True)
    ]
    assert len(rows) == count
    for row in rows:
        for text, start in zip(*row["answers"].values(), strict=True):
            assert row["context"][start : start + len(text)] == text
