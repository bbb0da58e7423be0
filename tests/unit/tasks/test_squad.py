"""Questions of SQuAD files: what is read as it stands, and what is refused, with its place."""

import copy
import json
from functools import partial

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import span as squad

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


of_paragraph = partial(changed, "data", 0, "paragraphs", 0)
of_question = partial(of_paragraph, "qas", 0)
of_answer = partial(of_question, "answers", 0)

AT_PARAGRAPH = "data[0].paragraphs[0]"
AT_ANSWER = "question 'q1': answers[0]"
AT_START = f"{AT_ANSWER}.answer_start"
NO_VALUE = "found nothing, expected a value"
# Contents and what is said of them after the file's name.
REFUSED = [
    (b"", "found no JSON (EOF while parsing a value at line 1 column 0), expected a whole file"),
    ([FILE], "found a list, expected an object"),
    ({"version": "1.1"}, f"data: {NO_VALUE}"),
    (changed(data=["Bees"]), "data[0]: found the text 'Bees', expected an object"),
    (of_paragraph(context=None), f"{AT_PARAGRAPH}.context: {NO_VALUE}"),
    (of_paragraph(context=" \n"), f"{AT_PARAGRAPH}.context: found ' \\n', expected text"),
    (of_question(id=1), f"{AT_PARAGRAPH}.qas[0].id: found 1, expected text"),
    (of_answer(text=""), f"{AT_ANSWER}.text: found '', expected text"),
    # Of several places the nearest.
    (
        of_answer(answer_start=20),
        f"{AT_START}: found 'ees ' at 20 of the context, expected 'bees', which begins at 19",
    ),
    (
        of_answer(answer_start=-28),
        f"{AT_START}: found 'Ada ' at -28 of the context, expected 'bees', which begins at 9",
    ),
    (
        of_answer(text="Bees"),
        f"{AT_START}: found 'bees' at 9 of the context, expected 'Bees', which is not in it",
    ),
    (of_answer(answer_start="9"), f"{AT_START}: found the text '9', expected a whole number"),
    (of_answer(answer_start=9.0), f"{AT_START}: found 9.0, expected a whole number"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_broken_file_is_refused_with_its_place(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(squad.questions(path, labelled=True))
    assert str(error.value) == f"{path}: {message}"


def test_questions_have_their_context_and_all_their_answers(tmp_path):
    answers = [{"text": "bees", "answer_start": 9}, {"text": "Her bees", "answer_start": 15}]
    second = {"id": "q2", "question": "What?", "answers": answers, "is_impossible": False}
    path = written(tmp_path, of_paragraph(qas=[QUESTION, second]))
    (_, first), (place, row) = squad.questions(path, labelled=True)
    assert first["answers"] == {"text": ["bees"], "answer_start": [9]}
    assert place == "question 'q2'"
    assert row == {
        "question": "What?",
        "context": CONTEXT,
        "answers": {"text": ["bees", "Her bees"], "answer_start": [9, 15]},
    }


@pytest.mark.parametrize("answers", [None, [], [{"text": "", "answer_start": -1}]])
def test_answers_are_not_read_where_no_labels_are_asked_for(tmp_path, answers):
    path = written(tmp_path, of_question(answers=answers))
    ((_, row),) = squad.questions(path, labelled=False)
    assert row["answers"] == {"text": [], "answer_start": []}


def test_places_are_counted_in_characters(tmp_path):
    """And not in bytes, or in the code units of UTF-16."""
    answers = [{"text": "bees", "answer_start": 12}]
    context = "Zoë \U0001f41d likes bees"
    path = written(tmp_path, of_paragraph(context=context, qas=[QUESTION | {"answers": answers}]))
    assert list(squad.questions(path, labelled=True))


@pytest.mark.parametrize(("split", "count"), [("train", 1_181), ("dev", 354)])
def test_real_questions_are_all_read(squad_dir, split, count):
    rows = [row for _, row in squad.questions(squad_dir / f"{split}-v1.1.json", labelled=True)]
    assert len(rows) == count
    for row in rows:
        for text, start in zip(*row["answers"].values(), strict=True):
            assert row["context"][start : start + len(text)] == text
