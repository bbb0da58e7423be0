"""Questions of SQuAD files: what is read as it stands, and what is refused, with its place."""

import copy
import json

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import squad

CONTEXT = "Ada kept bees. Her bees liked clover."
QUESTION = {
    "id": "q1",
    "question": "What did Ada keep?",
    "answers": [{"text": "bees", "answer_start": 9}],
}
PARAGRAPH = {"context": CONTEXT, "qas": [QUESTION]}
FILE = {"version": "1.1", "data": [{"title": "Bees", "paragraphs": [PARAGRAPH]}]}


def written(directory, content):
    path = directory / "train.json"
    path.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content, allow_nan=True).encode()
    )
    return path


def changed(*place: object, **fields: object) -> dict:
    """The file with other fields at a place in it; None takes a field away."""
    file = copy.deepcopy(FILE)
    of = file
    for key in place:
        of = of[key]
    of.update(fields)
    for name in [name for name, value in fields.items() if value is None]:
        del of[name]
    return file


def of_question(**fields: object) -> dict:
    return changed("data", 0, "paragraphs", 0, "qas", 0, **fields)


def of_answer(**fields: object) -> dict:
    return changed("data", 0, "paragraphs", 0, "qas", 0, "answers", 0, **fields)


def of_paragraph(**fields: object) -> dict:
    return changed("data", 0, "paragraphs", 0, **fields)


ENTRY = "data[0].paragraphs[0]"
START = "question 'q1': answers[0]: answer_start: found"
# Contents and what is said of them after the file's name.
REFUSED = {
    "nothing": (
        b"",
        "line 1, column 1: found no JSON (Expecting value), expected a whole SQuAD v1.1 file",
    ),
    "not JSON": (
        b"text,label\n",
        "line 1, column 1: found no JSON (Expecting value), expected a whole SQuAD v1.1 file",
    ),
    "cut off": (
        json.dumps(FILE)[:-4].encode(),
        f"line 1, column {len(json.dumps(FILE)) - 3}: found no JSON (Expecting ',' delimiter), "
        "expected a whole SQuAD v1.1 file",
    ),
    "JSON lines": (
        b'{"data": []}\n{"data": []}\n',
        "line 2, column 1: found no JSON (Extra data), expected a whole SQuAD v1.1 file",
    ),
    "latin-1": (
        b'{"data":\n"caf\xe9"}',
        "line 2: found the byte 0xe9, which is not UTF-8, expected a file in UTF-8",
    ),
    "a zero": (b'{"data":\n\n\0}', "line 3: found '\\x00', expected text"),
    "nested deeply": (
        b"[" * 100_000 + b"]" * 100_000,
        "found lists in lists too deep to read, expected a SQuAD v1.1 file",
    ),
    "a long number": (
        b'{"data": ' + b"9" * 5_000 + b"}",
        "found a number too long to read, expected a SQuAD v1.1 file",
    ),
    "a key twice": (
        json.dumps(FILE).replace('"id": "q1"', '"id": "q1", "id": "q2"').encode(),
        "found 'id' twice in an object, expected it once",
    ),
    "a list at the top": ([FILE], "found a list, expected an object"),
    "null at the top": (None, "found null, expected an object"),
    "no data": ({"version": "1.1"}, "found 'version', expected 'data'"),
    "an empty object": ({}, "found no key, expected 'data'"),
    "data is an object": (changed(data={}), "data: found an object, expected a list"),
    "no articles": (changed(data=[]), "found no questions, expected at least one"),
    "an article is a text": (
        changed(data=["Bees"]),
        "data[0]: found the text 'Bees', expected an object",
    ),
    "paragraphs are missing": (
        changed("data", 0, paragraphs=None),
        "data[0]: found 'title', expected 'paragraphs'",
    ),
    "paragraphs are a text": (
        changed("data", 0, paragraphs="x"),
        "data[0]: paragraphs: found the text 'x', expected a list",
    ),
    "a paragraph is a list": (
        changed("data", 0, paragraphs=[[]]),
        "data[0].paragraphs[0]: found a list, expected an object",
    ),
    "no context": (of_paragraph(context=None), f"{ENTRY}: found 'qas', expected 'context'"),
    "an empty context": (
        of_paragraph(context=""),
        f"{ENTRY}: context: found '', expected text",
    ),
    "a context of white space": (
        of_paragraph(context=" \n"),
        f"{ENTRY}: context: found ' \\n', expected text",
    ),
    "a context that is a list": (
        of_paragraph(context=[CONTEXT]),
        f"{ENTRY}: context: found a list, expected text",
    ),
    "questions are an object": (
        of_paragraph(qas={}),
        f"{ENTRY}: qas: found an object, expected a list",
    ),
    "a question is a number": (
        of_paragraph(qas=[3]),
        f"{ENTRY}.qas[0]: found 3, expected an object",
    ),
    "no id": (
        of_question(id=None),
        f"{ENTRY}.qas[0]: found 'question', 'answers', expected 'id'",
    ),
    "an id that is a number": (
        of_question(id=1),
        f"{ENTRY}.qas[0]: id: found 1, expected text",
    ),
    "an id twice": (
        of_paragraph(qas=[QUESTION, QUESTION]),
        "question 'q1': found its id twice, expected it once",
    ),
    "an empty question": (
        of_question(question=" "),
        "question 'q1': question: found ' ', expected text",
    ),
    "half a character": (
        of_question(question="What \ud83d?"),
        "question 'q1': question: found '\\ud83d', expected text",
    ),
    "a zero in a text": (
        of_question(question="What\0?"),
        "question 'q1': question: found '\\x00', expected text",
    ),
    "no answers": (
        of_question(answers=[]),
        "question 'q1': answers: found an empty list, expected an answer or more",
    ),
    "answers are missing": (
        of_question(answers=None),
        "question 'q1': found 'id', 'question', expected 'answers'",
    ),
    "answers as the hub's rows have them": (
        of_question(answers={"text": ["bees"], "answer_start": [9]}),
        "question 'q1': answers: found an object, expected a list",
    ),
    "an answer is a text": (
        of_question(answers=["bees"]),
        "question 'q1': answers[0]: found the text 'bees', expected an object",
    ),
    "SQuAD v2": (
        of_question(answers=[], is_impossible=True),
        "question 'q1': found 'is_impossible', as in SQuAD v2, expected questions of SQuAD v1.1, "
        "which all have an answer",
    ),
    "an empty answer": (
        of_answer(text=""),
        "question 'q1': answers[0]: text: found '', expected text",
    ),
    "an answer elsewhere": (
        of_answer(answer_start=10),
        f"{START} 'ees.' at 10 of the context, expected 'bees', which begins at 9",
    ),
    "an answer with other letters": (
        of_answer(text="Bees"),
        f"{START} 'bees' at 9 of the context, expected 'Bees', which is not in it",
    ),
    "an answer that the context cuts off": (
        of_answer(text="clover. Often", answer_start=30),
        f"{START} 'clover.' at 30 of the context, expected 'clover. Often', which is not in it",
    ),
    "no start": (
        of_answer(answer_start=None),
        "question 'q1': answers[0]: found 'text', expected 'answer_start'",
    ),
    "beyond the context": (
        of_answer(answer_start=37),
        f"{START} 37, expected a number from 0 to 36, within the context",
    ),
    "negative": (
        of_answer(answer_start=-28),
        f"{START} -28, expected a number from 0 to 36, within the context",
    ),
    "a start that is a text": (
        of_answer(answer_start="9"),
        f"{START} the text '9', expected a whole number",
    ),
    "a start that is true": (
        of_answer(answer_start=True),
        f"{START} true, expected a whole number",
    ),
    "a start that is a fraction": (
        of_answer(answer_start=9.0),
        f"{START} 9.0, expected a whole number",
    ),
    "a start that is not a number": (
        of_answer(answer_start=float("nan")),
        f"{START} NaN, expected a whole number",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_file_is_refused_with_its_place(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(squad.questions(path, labelled=True))
    assert str(error.value) == f"{path}: {message}"


def test_a_long_text_is_cut_off_in_a_message(tmp_path):
    path = written(tmp_path, of_answer(text="bees " * 100))
    with pytest.raises(SubtuneError) as error:
        list(squad.questions(path, labelled=True))
    assert str(error.value) == (
        f"{path}: {START} 'bees. Her bees liked clover.' at 9 of the context, expected "
        f"{('bees ' * 12)[:57] + '...'!r}, which is not in it"
    )


def test_an_answer_that_is_there_often_is_looked_for_nearby(tmp_path):
    path = written(tmp_path, of_answer(answer_start=20))
    with pytest.raises(SubtuneError, match="expected 'bees', which begins at 19"):
        list(squad.questions(path, labelled=True))


def test_questions_have_their_context_and_all_their_answers(tmp_path):
    answers = [{"text": "bees", "answer_start": 9}, {"text": "Her bees", "answer_start": 15}]
    second = {"id": "q2", "question": "What?", "answers": answers, "is_impossible": False}
    path = written(tmp_path, of_paragraph(qas=[QUESTION, second]))
    assert list(squad.questions(path, labelled=True)) == [
        (
            "question 'q1'",
            {
                "id": "q1",
                "question": "What did Ada keep?",
                "context": CONTEXT,
                "answers": {"text": ["bees"], "answer_start": [9]},
            },
        ),
        (
            "question 'q2'",
            {
                "id": "q2",
                "question": "What?",
                "context": CONTEXT,
                "answers": {"text": ["bees", "Her bees"], "answer_start": [9, 15]},
            },
        ),
    ]


@pytest.mark.parametrize("answers", [None, [], [{"text": "", "answer_start": -1}]])
def test_answers_are_not_read_where_no_labels_are_asked_for(tmp_path, answers):
    path = written(tmp_path, of_question(answers=answers))
    ((_, row),) = squad.questions(path, labelled=False)
    assert row["answers"] == {"text": [], "answer_start": []}


def test_places_are_counted_in_characters(tmp_path):
    """And not in bytes, or in the code units of UTF-16."""
    context = "Zoë \U0001f41d likes bees"
    start = context.index("bees")
    path = written(
        tmp_path,
        of_paragraph(
            context=context, qas=[QUESTION | {"answers": [{"text": "bees", "answer_start": start}]}]
        ),
    )
    ((_, row),) = squad.questions(path, labelled=True)
    assert row["answers"]["answer_start"] == [12]


@pytest.mark.parametrize(("split", "count"), [("train", 1_181), ("dev", 354)])
def test_real_questions_are_all_read(squad_dir, split, count):
    rows = [row for _, row in squad.questions(squad_dir / f"{split}-v1.1.json", labelled=True)]
    assert len(rows) == count
    for row in rows:
        for text, start in zip(*row["answers"].values(), strict=True):
            assert row["context"][start : start + len(text)] == text
