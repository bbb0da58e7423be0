"""Questions are read from files in SQuAD's format, or refused with their place."""

import copy
import json
from functools import partial

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.questions import read_questions
from subtune.tasks import TASKS

BEES = "Ada kept bees. Her bees liked clover."
KEPT = {
    "id": "q1",
    "question": "What did Ada keep?",
    "answers": [{"text": "bees", "answer_start": 9}],
}
PARAGRAPH = {"context": BEES, "qas": [KEPT]}
FILE = {"version": "1.1", "data": [{"title": "Bees", "paragraphs": [PARAGRAPH]}]}


def written(directory, content):
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
    (b"", "found no JSON (EOF while parsing a value at line 1 column 0), expected a whole file"),
    ({"version": "1.1"}, "data: found nothing, expected a value"),
    (changed(data=["Bees"]), "data[0]: found 'Bees', expected keys and values"),
    (of_paragraph(context=" \n"), f"{AT_PARAGRAPH}.context: found ' \\n', expected text"),
    (of_question(id=1), f"{AT_QUESTION}.id: found 1, expected text"),
    (
        of_question(answers=[]),
        "question 'q1': found no answer, as in SQuAD v2, expected questions of SQuAD v1.1, which "
        "all have one",
    ),
    (
        of_answer(answer_start=20),
        "question 'q1': found 'ees ' at 20 of the context, expected the answer 'bees'",
    ),
    (of_answer(answer_start=-1), f"{AT_ANSWER}.answer_start: found -1, expected greater than or"),
    (of_answer(answer_start=9.0), f"{AT_ANSWER}.answer_start: found 9.0, expected a valid integer"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_broken_file_is_refused_with_its_place(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(read_questions(TASKS["squad"], path, True))
    assert str(error.value).startswith(f"{path}: {message}")


def test_questions_have_their_context_and_all_their_answers(tmp_path):
    answers = [{"text": "bees", "answer_start": 9}, {"text": "Her bees", "answer_start": 15}]
    second = {"id": "q2", "question": "What?", "answers": answers, "is_impossible": False}
    path = written(tmp_path, of_paragraph(qas=[KEPT, second]))
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
        ((_, row),) = read_questions(TASKS["squad"], written(tmp_path, content), False)
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
