"""Questions of SQuAD v1.1's JSON files (Rajpurkar et al. 2016)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import text
from subtune.tasks.formats.text import Text, shown


class Part(BaseModel):
    """An object of the file. Its other keys are not read."""

    model_config = ConfigDict(strict=True)


class Answer(Part):
    """An accepted answer, and which character of the context it begins at, from 0."""

    text: Text
    answer_start: int


class Question(Part):
    """A question. Its answers are read only where labels are asked for."""

    id: Text
    question: Text
    answers: Any = None
    is_impossible: bool | None = None


class Paragraph(Part):
    """A context and the questions about it."""

    context: Text
    qas: list[Question]


class Article(Part):
    """An article, as of Wikipedia."""

    paragraphs: list[Paragraph]


class File(Part):
    """A whole file."""

    data: list[Article]


ANSWERS = TypeAdapter(Annotated[list[Answer], Field(min_length=1)])


def questions(path: Path, *, labelled: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read questions with their contexts and answers, each with its place.

    Each is ``{"id", "question", "context", "answers": {"text": […], "answer_start": […]}}``. Its
    answers are read only if ``labelled``, and else empty.

    Args:
        path: a UTF-8 file.
        labelled: whether answers are read.

    Raises:
        SubtuneError: the file is not one of SQuAD v1.1, a text is empty, an id is there twice, or
            the context does not have an answer at its place.
    """
    try:
        file = File.model_validate_json(text.read(path))
    except ValidationError as error:
        raise SubtuneError(f"{path}: {text.problem(error)}") from None
    ids: set[str] = set()
    for paragraph in (paragraph for article in file.data for paragraph in article.paragraphs):
        for question in paragraph.qas:
            place = f"question {shown(question.id)}"
            if question.id in ids:
                raise SubtuneError(f"{path}: {place}: found its id twice, expected it once")
            ids.add(question.id)
            answers = []
            if labelled:
                answers = _answers(question, paragraph.context, f"{path}: {place}")
            row = {"id": question.id, "question": question.question, "context": paragraph.context}
            texts = [answer.text for answer in answers]
            starts = [answer.answer_start for answer in answers]
            yield place, row | {"answers": {"text": texts, "answer_start": starts}}
    if not ids:
        raise SubtuneError(f"{path}: found no questions, expected at least one")


def _answers(question: Question, context: str, place: str) -> list[Answer]:
    if question.is_impossible:
        raise SubtuneError(
            f"{place}: found 'is_impossible', as in SQuAD v2, expected questions of SQuAD v1.1, "
            "which all have an answer"
        )
    try:
        answers = ANSWERS.validate_python(question.answers)
    except ValidationError as error:
        raise SubtuneError(f"{place}: {text.problem(error, 'answers')}") from None
    for number, answer in enumerate(answers):
        _require_in_context(answer, context, f"{place}: answers[{number}]")
    return answers


def _require_in_context(answer: Answer, context: str, place: str) -> None:
    start = answer.answer_start
    if not 0 <= start < len(context):
        raise SubtuneError(
            f"{place}.answer_start: found {start}, expected a number from 0 to "
            f"{len(context) - 1}, within the context"
        )
    if not context.startswith(answer.text, start):
        found = context[start : start + len(answer.text)]
        starts = [at for at in range(len(context)) if context.startswith(answer.text, at)]
        nearest = min(starts, key=lambda at: abs(at - start), default=None)
        hint = "is not in it" if nearest is None else f"begins at {nearest}"
        raise SubtuneError(
            f"{place}.answer_start: found {shown(found)} at {start} of the context, "
            f"expected {shown(answer.text)}, which {hint}"
        )
