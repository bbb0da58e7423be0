"""Readers of corpora: GLUE's tables, CoNLL files of labelled words, and SQuAD's questions."""

import re
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel, Field

from subtune.core.errors import SubtuneError, explain_pydantic_errors, format_missing_column, quote
from subtune.data.table_files import json_rows, read_text, split_lines
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow, Text

# Maps column names in each task's GLUE files to the names on the hub, if they differ.
NEW_NAMES = {
    "mnli": {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    "mrpc": {"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label"},
    "stsb": {"score": "label"},
    "qqp": {"is_duplicate": "label"},
}
# The columns of CoLA's labelled files, which have no header.
HEADERLESS = {"cola": ("source", "label", "original_label", "sentence")}
# Tasks whose files contain a few truncated lines, which are skipped as in the copy on the hub.
CUT_OFF_LINES = ("qqp",)
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# A line that begins with this word separates documents.
DOCUMENT = "-DOCSTART-"


def read_glue_rows(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Read the rows of a GLUE file, in which ``"`` is an ordinary character."""
    rename = NEW_NAMES.get(task.name, {})
    header: tuple[str, ...] | None = HEADERLESS.get(task.name) if labelled else None
    lines, number = split_lines(read_text(path).removesuffix("\n")), 0
    for place, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if header is None:
            header = tuple(rename.get(cell, cell) for cell in cells)
        elif len(cells) >= len(header):
            number += 1
            yield f"row {number}", dict(zip(header, cells, strict=False))
        elif task.name not in CUT_OFF_LINES:
            raise SubtuneError(
                f"{path}: line {place}: found {len(cells)} columns, "
                f"expected {len(header)} ({', '.join(header)})"
            )


def read_sentences(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Read sentences from a CoNLL or CoNLL-U file, or from JSON lines with lists of words."""
    if path.suffix.lower() == ".jsonl":
        return json_rows(path)
    return read_words(path, task.columns_read(labelled), task.encoding)


def read_words(
    path: Path, columns: Collection[str], encoding: str | None = None
) -> Iterator[PlacedRow]:
    """Read ``columns`` of each sentence of a CoNLL or CoNLL-U file, one line per word.

    CoNLL-U is defined at https://universaldependencies.org/format.html. Multiword tokens (ids with
    ``-``) and empty nodes (ids with ``.``) are skipped.

    In CoNLL files, the columns are called ``1``, ``2``, …. They are separated by tabs if the line
    of the first word contains a tab, otherwise by spaces. A line that begins with `DOCUMENT` ends a
    sentence.

    Yields:
        The line of the sentence's first word, and the list of the words' cells in each column.
    """
    is_conllu = path.suffix.lower() == ".conllu"
    lines = [*enumerate(split_lines(read_text(path, encoding)), start=1)]
    if is_conllu:
        lines = [line for line in lines if not line[1].startswith("#")]
        names, has_tabs, source = [*CONLLU], True, f" ({', '.join(CONLLU)})"
    else:
        lines = [(n, "" if line.split()[:1] == [DOCUMENT] else line) for n, line in lines]
        first, header = next((line for line in lines if line[1].strip()), (0, ""))
        has_tabs, source = "\t" in header, f", as in line {first}"
        names = [str(n) for n, _ in enumerate(_split_cells(header, has_tabs), start=1)]
    for is_blank, group in groupby(lines, key=lambda line: not line[1].strip()):
        if is_blank:
            continue
        words = []
        for number, line in group:
            cells = _split_cells(line, has_tabs)
            if len(cells) != len(names):
                separator = "tabs" if has_tabs else "spaces"
                raise SubtuneError(
                    f"{path}: line {number}: found {len(cells)} columns, expected {len(names)}, "
                    f"separated by {separator}{source}"
                )
            if is_conllu and re.search("[-.]", cells[0]):
                continue
            words.append((number, cells))
            if is_conllu and cells[0] != str(len(words)):
                raise SubtuneError(
                    f"{path}: line {number}: found the id {quote(cells[0])}, expected "
                    f"{len(words)}; ids count the words of a sentence from 1, and a blank line "
                    "ends a sentence"
                )
        for column in columns:
            if column not in names:
                raise SubtuneError(f"{path}: {format_missing_column(column, names)}")
        positions = {column: names.index(column) for column in columns}
        if words:
            yield (
                f"line {words[0][0]}",
                {column: [cells[n] for _, cells in words] for column, n in positions.items()},
            )


def _split_cells(line: str, has_tabs: bool) -> list[str]:
    return line.split("\t") if has_tabs else re.findall("[^ \t]+", line)


# The structure of a SQuAD v1.1 file. Unknown keys are ignored.
class _Answer(BaseModel):
    text: Text
    # An index into the characters of the context.
    answer_start: int = Field(ge=0)


class _Question(BaseModel):
    id: Text
    question: Text
    # Missing or null in test files.
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

    Answers are ``{"text": […], "answer_start": […]}``, as on the hub.
    """
    with explain_pydantic_errors(path):
        file = _File.model_validate_json(read_text(path), strict=True)
    for paragraph in (paragraph for article in file.data for paragraph in article.paragraphs):
        for question in paragraph.qas:
            place, context = f"question {quote(question.id)}", paragraph.context
            answers: list[_Answer] = []
            if labelled:
                answers = _require_answers_in_context(question, context, f"{path}: {place}")
            accepted = {
                "text": [answer.text for answer in answers],
                "answer_start": [answer.answer_start for answer in answers],
            }
            row = {"question": question.question, "context": context}
            yield place, row | {"answers": accepted}


def _require_answers_in_context(question: _Question, context: str, place: str) -> list[_Answer]:
    """Return the answers of a question, after checking that the context contains them."""
    if not question.answers:
        raise SubtuneError(
            f"{place}: found no answer; questions without an answer, as in SQuAD v2, are not "
            "supported"
        )
    for answer in question.answers:
        start = answer.answer_start
        found = context[start : start + len(answer.text)]
        if found != answer.text:
            raise SubtuneError(
                f"{place}: found {quote(found)} at character {start} of the context, expected the "
                f"answer {quote(answer.text)}"
            )
    return question.answers
