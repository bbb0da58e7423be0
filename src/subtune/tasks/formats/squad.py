"""Questions of SQuAD v1.1's JSON files (Rajpurkar et al. 2016).

``data`` is a list of articles, an article's ``paragraphs`` have a ``context`` and ``qas``, and each
of these a ``question``, an ``id`` and ``answers``, whose ``answer_start`` counts characters.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import text
from subtune.tasks.formats.text import NO_CHARACTER, shown


def questions(path: Path, *, labelled: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Questions with their contexts and answers, each with its place.

    Each is ``{"id", "question", "context", "answers": {"text": […], "answer_start": […]}}``, and
    has no answers where no labels are asked for.

    Args:
        path: a UTF-8 file.
        labelled: whether answers are read.

    Raises:
        SubtuneError: the file is not one of SQuAD v1.1, a text is empty, an id is there twice, or
            an answer is not what the context has at its place.
    """
    ids: set[str] = set()
    file = _object(_json(path), f"{path}")
    for article_number, article in enumerate(_list(file, "data", f"{path}")):
        at_article = f"{path}: data[{article_number}]"
        paragraphs = _list(_object(article, at_article), "paragraphs", at_article)
        for paragraph_number, paragraph in enumerate(paragraphs):
            at_paragraph = f"{at_article}.paragraphs[{paragraph_number}]"
            context = _text(_object(paragraph, at_paragraph), "context", at_paragraph)
            for number, entry in enumerate(_list(paragraph, "qas", at_paragraph)):
                at_entry = f"{at_paragraph}.qas[{number}]"
                name = _text(_object(entry, at_entry), "id", at_entry)
                place = f"question {shown(name)}"
                if name in ids:
                    raise SubtuneError(f"{path}: {place}: found its id twice, expected it once")
                ids.add(name)
                yield (
                    place,
                    {
                        "id": name,
                        "question": _text(entry, "question", f"{path}: {place}"),
                        "context": context,
                        "answers": _answers(entry, context, f"{path}: {place}", labelled),
                    },
                )
    if not ids:
        raise SubtuneError(f"{path}: found no questions, expected at least one")


def _json(path: Path) -> Any:
    content = text.read(path)
    try:
        return json.loads(content, object_pairs_hook=_without_repeated_keys)
    except _RepeatedKeyError as error:
        raise SubtuneError(
            f"{path}: found {shown(str(error))} twice in an object, expected it once"
        ) from None
    except json.JSONDecodeError as error:
        raise SubtuneError(
            f"{path}: line {error.lineno}, column {error.colno}: found no JSON ({error.msg}), "
            "expected a whole SQuAD v1.1 file"
        ) from None
    except RecursionError:
        raise SubtuneError(
            f"{path}: found lists in lists too deep to read, expected a SQuAD v1.1 file"
        ) from None
    except ValueError:
        # Of what is JSON, numbers of thousands of digits are all that Python does not read.
        raise SubtuneError(
            f"{path}: found a number too long to read, expected a SQuAD v1.1 file"
        ) from None


class _RepeatedKeyError(Exception):
    pass


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return by_key


def _answers(
    entry: dict[str, Any], context: str, place: str, labelled: bool
) -> dict[str, list[Any]]:
    """The answers' texts, and where in the context they begin."""
    if entry.get("is_impossible") not in (None, False):
        raise SubtuneError(
            f"{place}: found 'is_impossible', as in SQuAD v2, expected questions of SQuAD v1.1, "
            "which all have an answer"
        )
    texts: list[str] = []
    starts: list[int] = []
    if labelled:
        answers = _list(entry, "answers", place)
        if not answers:
            raise SubtuneError(f"{place}: answers: found an empty list, expected an answer or more")
        for number, answer in enumerate(answers):
            at_answer = f"{place}: answers[{number}]"
            texts.append(_text(_object(answer, at_answer), "text", at_answer))
            starts.append(_start(answer, texts[-1], context, at_answer))
    return {"text": texts, "answer_start": starts}


def _start(answer: dict[str, Any], answer_text: str, context: str, place: str) -> int:
    start = _value(answer, "answer_start", place)
    place = f"{place}: answer_start"
    if type(start) is not int:
        raise SubtuneError(f"{place}: found {_in_words(start)}, expected a whole number")
    if not 0 <= start < len(context):
        raise SubtuneError(
            f"{place}: found {start}, expected a number from 0 to {len(context) - 1}, "
            "within the context"
        )
    if not context.startswith(answer_text, start):
        at_start = context[start : start + len(answer_text)]
        starts = [at for at in range(len(context)) if context.startswith(answer_text, at)]
        nearest = min(starts, key=lambda at: abs(at - start), default=None)
        hint = "is not in it" if nearest is None else f"begins at {nearest}"
        raise SubtuneError(
            f"{place}: found {shown(at_start)} at {start} of the context, "
            f"expected {shown(answer_text)}, which {hint}"
        )
    return start


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SubtuneError(f"{place}: found {_in_words(value)}, expected an object")
    return value


def _value(of: dict[str, Any], key: str, place: str) -> Any:
    if key not in of:
        keys = ", ".join(shown(name) for name in list(of)[:8]) or "no key"
        raise SubtuneError(f"{place}: found {keys}, expected {key!r}")
    return of[key]


def _list(of: dict[str, Any], key: str, place: str) -> list[Any]:
    value = _value(of, key, place)
    if not isinstance(value, list):
        raise SubtuneError(f"{place}: {key}: found {_in_words(value)}, expected a list")
    return value


def _text(of: dict[str, Any], key: str, place: str) -> str:
    value = _value(of, key, place)
    if not isinstance(value, str):
        raise SubtuneError(f"{place}: {key}: found {_in_words(value)}, expected text")
    if not value.strip():
        raise SubtuneError(f"{place}: {key}: found {shown(value)}, expected text")
    if no_character := NO_CHARACTER.search(value):
        raise SubtuneError(f"{place}: {key}: found {no_character[0]!r}, expected text")
    return value


def _in_words(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
        case str():
            return f"the text {shown(value)}"
    return json.dumps(value)
