"""Token classification: one label word for each word of a text, such as its part of speech.

A word's label is predicted at its first piece. If a text is longer than the model reads, it is cut
between words, so that each word is in one example.

Shapes: ``n`` examples, ``q`` words, ``o`` label words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.examples import IGNORED, Examples
from subtune.tasks.formats import Text, ending_of, json_rows, read_text, shown, validated
from subtune.tasks.sentences import NO_LABEL
from subtune.tasks.task_kind import Columns, PlacedRow, Row, TaskKind

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.task import TaskSpec

CONLLU = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]
# A line with this word separates documents.
DOCUMENT = "-DOCSTART-"
# Sections of the Wall Street Journal part, as part-of-speech taggers split them (Collins 2002,
# Section 5; Toutanova et al. 2003, Section 3).
SECTIONS = {"train": slice(0, 19), "validation": slice(19, 22), "test": slice(22, 25)}
# Folders of sections, below the user's directory.
FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "treebank_3/parsed/mrg/wsj")
# The tag of moved or omitted words.
NO_WORD = "-NONE-"
# A leaf with tag and word, an opening bracket with its label, a closing bracket, or a misplaced
# word.
TOKEN = re.compile(
    r"(?P<leaf>\(\s*(?P<tag>[^\s()]+)\s+(?P<word>[^\s()]+)\s*\))"
    r"|(?P<opening>\(\s*(?P<label>[^\s()]*))|(?P<closing>\))|(?P<stray>[^\s()]+)"
)
TEXTS = TypeAdapter(dict[str, Annotated[list[Text], Field(min_length=1)]])


class Tokens(TaskKind):
    """One label word for each word of a text."""

    name = "tokens"
    metrics = ("accuracy", "f1_macro")
    default_metrics = ("accuracy",)
    text_columns = (1,)
    has_label_words = True
    labels_are = "of every word"
    formats = (".conllu", ".conll", ".txt", ".jsonl")
    head = "token_classification"

    def columns(self, task: TaskSpec) -> Mapping[str, Any]:
        return {"words": ["string"], "label": ["int32"]}

    def read(self, task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
        """Read a CoNLL file, JSON lines with lists of words and labels, or a treebank's trees."""
        columns = task.columns_read(labelled)
        if ending_of(path) == ".jsonl":
            return json_rows(path)
        if ending_of(path) == ".mrg":
            return treebank_sentences(path, columns)
        return conll_sentences(path, columns, task.encoding)

    def cells(self, task: TaskSpec, row: Row, labelled: bool, place: str) -> tuple:
        """Return the words and the numbers of their labels; unlabelled words have -1."""
        read = {column: row[column] for column in task.columns_read(labelled)}
        with validated(place):
            words, *given = TEXTS.validate_python(read, strict=True).values()
        if not labelled:
            return words, [NO_LABEL] * len(words)
        numbers = {label: number for number, label in enumerate(task.labels or ())}
        for word, label in enumerate(given[0], start=1):
            if label not in numbers:
                raise SubtuneError(f"{place}: word {word}: label: {one_of(label, numbers)}")
        if len(given[0]) != len(words):
            raise SubtuneError(
                f"{place}: found {len(words)} words and {len(given[0])} labels, expected a label "
                "of each word"
            )
        return words, [numbers[label] for label in given[0]]

    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        return columns["words"]

    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Return examples of whole words. A word that is too long is cut to its first pieces.

        ``reads`` has the position of each word's first piece.
        """
        room = max_length - tokenizer.num_special_tokens_to_add(is_pair=False)

        @cache
        def pieces_of(word: str) -> Encoding:
            # Some tokenizers recognise the start of a word only by the space before it.
            pieces = tokenizer.encode(f" {word}", add_special_tokens=False)
            pieces.truncate(room)
            return pieces if pieces.ids else _unknown(tokenizer, word)

        examples = []
        for row, words, labels in zip(rows["idx"], rows["words"], rows["label"], strict=True):
            pieces = [pieces_of(word) for word in words]
            for part in _parts(list(map(len, pieces)), room):
                whole = tokenizer.post_process(Encoding.merge(pieces[part], growing_offsets=False))
                lengths = np.array([len(word) for word in pieces[part]])
                reads = whole.sequence_ids.index(0) + lengths.cumsum() - lengths
                example = {
                    "row": row,
                    "input_ids": whole.ids,
                    "reads": reads,
                    "label": labels[part],
                }
                examples.append(example | {"token_type_ids": whole.type_ids})
        return {name: [example[name] for example in examples] for name in examples[0]}

    def total(self, labels: Tensor, weights: Tensor | None) -> Tensor | float:
        return (labels != IGNORED).sum() if weights is None else super().total(labels, weights)

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1)

    def table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return ``idx`` (the text's number), ``word`` (the number in the text), ``label`` and
        ``prediction``."""
        import pandas as pd

        text = examples.row.repeat([len(labels) for labels in examples.labels])
        return pd.DataFrame(
            {
                "idx": text,
                "word": np.arange(len(text)) - np.searchsorted(text, text),
                "label": np.concatenate(examples.labels),
                "prediction": predictions,
            }
        )

    def compared(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["prediction"].to_numpy(), table["label"].to_numpy()


def _parts(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Yield slices of neighbouring words that fit into ``room`` together."""
    start = total = 0
    for number, length in enumerate(lengths):
        if total + length > room:
            yield slice(start, number)
            start, total = number, 0
        total += length
    yield slice(start, len(lengths))


def _unknown(tokenizer: Tokenizer, word: str) -> Encoding:
    """Return the unknown token, for a word that the tokenizer removes."""
    name = getattr(tokenizer.model, "unk_token", None) or ""
    number = tokenizer.token_to_id(name)
    if number is None:
        raise SubtuneError(f"the tokenizer has no token for the word {word!r}")
    # The tokenizer itself may cut the token's name into pieces.
    return Tokenizer(WordLevel({name: number}, name)).encode(name)


def conll_sentences(
    path: Path, columns: Collection[str], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read the columns of a CoNLL file's sentences, each with the line of its first word.

    Each word has a line, and a blank line ends a sentence. ``.conllu`` files have the format of
    https://universaldependencies.org/format.html: the columns of `CONLLU`, separated by tabs,
    comments that begin with ``#``, and lines that are not words, with ``-`` or ``.`` in the id. In
    other files the columns are called ``1``, ``2``, …, and are separated by tabs if the first line
    has a tab, else by spaces.

    Raises:
        SubtuneError: the file cannot be read or has no such column, a line has more or fewer
            columns than the others, a word's id is not its number in the sentence, or a needed cell
            is empty.
    """
    is_conllu = ending_of(path) == ".conllu"
    names, between, like = [], "", ""
    if is_conllu:
        names, between, like = CONLLU, "tabs", f" ({', '.join(CONLLU)})"
    # The first line of a sentence, and the cells of each word.
    first, words = 0, list[list[str]]()
    for number, line in enumerate([*read_text(path, encoding).split("\n"), ""], start=1):
        line, place = line.removesuffix("\r"), f"{path}: line {number}"
        if is_conllu and line.startswith("#"):
            continue
        between = between or ("tabs" if "\t" in line else "spaces" if line.strip() else "")
        cells = line.split("\t") if between == "tabs" else re.findall("[^ \t]+", line)
        if not line.strip() or (cells[0] == DOCUMENT and not is_conllu):
            if words:
                by_name = dict(zip(names, zip(*words, strict=True), strict=True))
                yield f"line {first}", {column: [*by_name[column]] for column in columns}
            words = []
            continue
        if not names:
            names, like = [str(n + 1) for n in range(len(cells))], f", as in line {number}"
        if len(cells) != len(names):
            raise SubtuneError(
                f"{place}: found {len(cells)} columns, expected {len(names)}, separated by "
                f"{between}{like}"
            )
        if is_conllu and ("-" in cells[0] or "." in cells[0]):
            continue
        if is_conllu and cells[0] != str(len(words) + 1):
            raise SubtuneError(
                f"{place}: found the id {shown(cells[0])}, expected {len(words) + 1}; words are "
                "counted from 1, and a blank line ends a sentence"
            )
        for column in columns:
            if column not in names:
                raise SubtuneError(f"{path}: no such column: {one_of(column, names)}")
            if not (cell := cells[names.index(column)]).strip():
                raise SubtuneError(f"{place}: column {column!r}: found {cell!r}, expected text")
        first = first if words else number
        words.append(cells)


def treebank_paths(directory: Path, key: str) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split of the Wall Street Journal part.

    The directory may be the disc's root, the folder of the sections ``00`` to ``24``, or a folder
    between them.

    Raises:
        SubtuneError: a section is missing. The message begins with ``key``.
    """
    folders = (directory / folder for folder in FOLDERS)
    root = next((folder for folder in folders if (folder / "00").is_dir()), directory)
    files = [sorted((root / f"{section:02}").glob("*.[mM][rR][gG]")) for section in range(25)]
    if missing := [f"{section:02}" for section, found in enumerate(files) if not found]:
        raise SubtuneError(
            f"{key}: {root}: found no .mrg files of section {', '.join(missing)}, expected those "
            "of the Wall Street Journal, 00 to 24, in it or in its parsed/mrg/wsj"
        )
    return {split: tuple(chain(*files[sections])) for split, sections in SECTIONS.items()}


def treebank_sentences(path: Path, columns: Collection[str]) -> Iterator[PlacedRow]:
    """Read the columns of a treebank file's sentences, each with the line of its tree.

    A file has trees in brackets (Marcus et al. 1993). ``form`` has the words and ``xpos`` their
    tags, as in the file, where a bracket is ``-LRB-``. Leaves that are not words are left out, and
    so are sentences without words.

    Raises:
        SubtuneError: the file is not UTF-8, or has brackets that do not match.
    """
    content = read_text(path)
    line, depth = 0, 0
    for token in TOKEN.finditer(content):
        if depth == 0:
            line, by_column = _line_of(content, token), dict[str, list[str]](form=[], xpos=[])
        kind = token.lastgroup
        if kind == "leaf" and token["tag"] != NO_WORD:
            by_column["form"].append(token["word"])
            by_column["xpos"].append(token["tag"])
        depth += {"opening": 1, "closing": -1}.get(str(kind), 0)
        nested = kind == "opening" and depth > 1 and not token["label"]
        if kind == "stray" or depth < 0 or nested:
            raise SubtuneError(
                f"{path}: line {_line_of(content, token)}: found {shown(token[0])}, expected words "
                f"as (TAG word), and a ')' for every '(' of the tree that begins in line {line}"
            )
        if depth == 0 and by_column["form"]:
            yield f"line {line}", {column: by_column[column] for column in columns}
    if depth:
        raise SubtuneError(
            f"{path}: line {line}: found a tree that does not end, expected a ')' for every '('"
        )


def _line_of(content: str, token: re.Match) -> int:
    return content.count("\n", 0, token.start()) + 1
