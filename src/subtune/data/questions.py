"""Questions with their contexts and answers, from files in SQuAD's format."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field

from subtune.core.errors import SubtuneError, shown, validated
from subtune.data.text_files import read_text
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow, Text

ENDINGS = (".json",)


# The layout of a SQuAD v1.1 file. Unknown keys are ignored.
class _Answer(BaseModel):
    text: Text
    # Counted in characters of the context.
    answer_start: int = Field(ge=0)


class _Question(BaseModel):
    id: Text
    question: Text
    # Test files have no answers, or null.
    answers: list[_Answer] | None = None


class _Paragraph(BaseModel):
    context: Text
    qas: list[_Question]


class _Article(BaseModel):
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    data: list[_Article]


def read_questions(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Read the questions of a SQuAD v1.1 file with their contexts and, if ``labelled``, answers.

    A row is ``{"question", "context", "answers": {"text": […], "answer_start": […]}}``.

    Raises:
        SubtuneError: the file is not in the format of SQuAD v1.1, a text is empty, an answer is not
            at its stated position in the context, or a question has no answer although
            ``labelled``.
    """
    with validated(path):
        file = _File.model_validate_json(read_text(path), strict=True)
    for paragraph in (paragraph for article in file.data for paragraph in article.paragraphs):
        for question in paragraph.qas:
            place = f"question {shown(question.id)}"
            answers = (
                _require_answers(question, paragraph.context, f"{path}: {place}")
                if labelled
                else []
            )
            accepted = {
                "text": [answer.text for answer in answers],
                "answer_start": [answer.answer_start for answer in answers],
            }
            row = {"question": question.question, "context": paragraph.context}
            yield place, row | {"answers": accepted}


def _require_answers(question: _Question, context: str, place: str) -> list[_Answer]:
    """Return the answers of a question at ``place``, which are parts of the context."""
    if not question.answers:
        raise SubtuneError(
            f"{place}: found no answer, as in SQuAD v2, expected questions of SQuAD v1.1, which "
            "all have one"
        )
    for answer in question.answers:
        start = answer.answer_start
        found = context[start : start + len(answer.text)]
        if found != answer.text:
            raise SubtuneError(
                f"{place}: found {shown(found)} at {start} of the context, expected the answer "
                f"{shown(answer.text)}"
            )
    return question.answers
