"""Questions of SQuAD v1.1's JSON files (Rajpurkar et al. 2016)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import text
from subtune.tasks.formats.text import Text, shown


# The layout of a file. Other keys of its objects are not read.
class _Answer(BaseModel):
    text: Text
    # Counted in characters of the context, from 0.
    answer_start: int


class _Question(BaseModel):
    id: Text
    question: Text
    # Read only where labels are asked for.
    answers: Any = None
    is_impossible: bool | None = None


class _Paragraph(BaseModel):
    context: Text
    qas: list[_Question]


class _Article(BaseModel):
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    data: list[_Article]


class _Labels(BaseModel):
    answers: list[_Answer] = Field(min_length=1)


def questions(path: Path, *, labelled: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read questions with their contexts and, if ``labelled``, their answers, each with its place.

    Each is ``{"id", "question", "context", "answers": {"text": […], "answer_start": […]}}``.

    Raises:
        SubtuneError: the file is not one of SQuAD v1.1, a text is empty, or the context does not
            have an answer at its place.
    """
    try:
        file = _File.model_validate_json(text.read(path), strict=True)
    except ValidationError as error:
        raise SubtuneError(f"{path}: {text.problem(error)}") from None
    for paragraph in (paragraph for article in file.data for paragraph in article.paragraphs):
        for question in paragraph.qas:
            place = f"question {shown(question.id)}"
            answers = _answers(question, paragraph.context, f"{path}: {place}") if labelled else []
            row = {"id": question.id, "question": question.question, "context": paragraph.context}
            texts = [answer.text for answer in answers]
            starts = [answer.answer_start for answer in answers]
            yield place, row | {"answers": {"text": texts, "answer_start": starts}}


def _answers(question: _Question, context: str, place: str) -> list[_Answer]:
    if question.is_impossible:
        raise SubtuneError(
            f"{place}: found 'is_impossible', as in SQuAD v2, expected questions of SQuAD v1.1, "
            "which all have an answer"
        )
    try:
        answers = _Labels.model_validate({"answers": question.answers}, strict=True).answers
    except ValidationError as error:
        raise SubtuneError(f"{place}: {text.problem(error)}") from None
    for number, answer in enumerate(answers):
        start = answer.answer_start
        if start < 0 or not context.startswith(answer.text, start):
            found = context[max(start, 0) : max(start, 0) + len(answer.text)]
            starts = [at for at in range(len(context)) if context.startswith(answer.text, at)]
            nearest = min(starts, key=lambda at: abs(at - start), default=None)
            hint = "is not in it" if nearest is None else f"begins at {nearest}"
            raise SubtuneError(
                f"{place}: answers[{number}].answer_start: found {shown(found)} at {start} of the "
                f"context, expected {shown(answer.text)}, which {hint}"
            )
    return answers
