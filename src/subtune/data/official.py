"""Published tasks: files in official layouts, and repositories on the hub with Parquet files.

A repository is no part of an id: a dataset's version is the commit.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError
from subtune.hub.commits import GLUE, SQUAD, UNIVERSAL_DEPENDENCIES
from subtune.tasks import DIAGNOSTIC, TASKS, Task, TaskSpec
from subtune.tasks.formats import tagged, text
from subtune.tasks.formats.text import present

# Each split's file. Test files may be absent.
NAMES = {
    "ud_ewt": {
        "train": "en_ewt-ud-train.conllu",
        "validation": "en_ewt-ud-dev.conllu",
        "test": "en_ewt-ud-test.conllu",
    },
    "squad": {"train": "train-v1.1.json", "validation": "dev-v1.1.json"},
}
# Tasks that have official files. The Penn Treebank has many in each section.
RELEASES = ("ptb", *NAMES)
# The column names of GLUE's files, where they are not the hub's.
COLUMNS = {
    "mnli": {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    "mrpc": {"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label"},
    "stsb": {"score": "label"},
    "qqp": {"is_duplicate": "label"},
}
# CoLA's labelled files have no header.
HEADERLESS = {"cola": ("source", "label", "original_label", "sentence")}
# The published QQP files hold a few cut-off lines, which the hub's copy leaves out too.
CUT_OFF_LINES = ("qqp",)
Row = Mapping[str, Any]


def paths(directory: str, task: TaskSpec) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split of a task outside GLUE.

    Raises:
        SubtuneError: the directory, or a file with labels, is not there.
    """
    key = f"directories.{task.name}"
    names = NAMES.get(task.name, {})
    expected = ", ".join(names.values()) or "the Penn Treebank's sections"
    by_split = present(key, directory, f"one with {expected}", names, may_lack=("test",))
    if not names:
        return tagged.treebank_paths(Path(directory), key)
    return {split: (path,) for split, path in by_split.items()}


def glue_path(glue_dir: Path, task: Task, split: str) -> Path:
    """Return GLUE's file of a split: ``validation_matched`` is ``dev_matched.tsv``."""
    if split == DIAGNOSTIC:
        return glue_dir / "diagnostic" / "diagnostic.tsv"
    return glue_dir / task.title / f"{split.replace('validation', 'dev')}.tsv"


def glue_paths(directory: str, task: TaskSpec) -> dict[str, Path]:
    """Return the file of each split of one of GLUE's tasks. Only test files may be absent.

    Raises:
        SubtuneError: the directory or one of its files is not there.
    """
    of_glue = TASKS[task.name]
    splits = (*task.labelled, *of_glue.test)
    names = {split: str(glue_path(Path(), of_glue, split)) for split in splits}
    return present("glue_dir", directory, "GLUE's official layout", names, may_lack=of_glue.test)


def glue_rows(path: Path, task: TaskSpec, *, labelled: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of one of GLUE's files. TSV here has no quoting at all: a ``"`` is a letter.

    Raises:
        SubtuneError: a line has too few columns, or the file is not UTF-8.
    """
    rename = COLUMNS.get(task.name, {})
    header: tuple[str, ...] | None = HEADERLESS.get(task.name) if labelled else None
    # Only "\n" ends a row: some sentences hold other characters that Unicode calls line ends.
    for number, line in enumerate(text.read(path).removesuffix("\n").split("\n"), start=1):
        cells = line.removesuffix("\r").split("\t")
        if header is None:
            header = tuple(rename.get(cell, cell) for cell in cells)
        elif len(cells) >= len(header):
            yield dict(zip(header, cells, strict=False))
        elif task.name not in CUT_OFF_LINES:
            raise SubtuneError(
                f"{path}: line {number}: found {len(cells)} columns, "
                f"expected {len(header)} ({', '.join(header)})"
            )


class Repository(NamedTuple):
    """A repository of datasets."""

    name: str
    # The pattern of a split's files.
    files: str
    # Advice for a user without a network.
    instead: str
    # Makes a row of the task of the hub's. None where labels are numbers there already.
    row: Callable[[Row], Row] | None = None

    def pattern(self, task: str, split: str) -> str:
        """Return the files of a split; GLUE's diagnostic set is a task of its own there."""
        folder, part = ("ax", "test") if split == DIAGNOSTIC else (task, split)
        return self.files.format(task=folder, split=part)


def _words_with_tags(row: Row) -> Row:
    """Return a sentence's words and tags, without what is no word of the text.

    Contractions stand before their parts without a tag. Words that the text leaves out have one,
    but no number as their head.
    """
    cells = zip(row["tokens"], row["xpos"], row["head"], strict=True)
    words = [
        (word, tag) for word, tag, head in cells if tag not in (None, "_") and str(head).isdecimal()
    ]
    return {"form": [word for word, _ in words], "xpos": [tag for _, tag in words]}


OF_GLUE = Repository(GLUE, "{task}/{split}-*.parquet", "set `source: tsv` and a `glue_dir`")
REPOSITORIES = {
    "squad": Repository(
        SQUAD,
        "plain_text/{split}-*.parquet",
        "name a directory with SQuAD's files in `directories.squad`",
        row=dict,
    ),
    "ud_ewt": Repository(
        UNIVERSAL_DEPENDENCIES,
        "en_ewt/{split}/*.parquet",
        "name a directory with the treebank's files in `directories.ud_ewt`",
        row=_words_with_tags,
    ),
}


def is_on_hub(task: str) -> bool:
    """Return whether the hub has a built-in task: GLUE's, and those in `REPOSITORIES`."""
    return task in REPOSITORIES or bool(TASKS[task].submission)


def repository_of(task: str) -> Repository:
    """Return the repository with a built-in task.

    Raises:
        SubtuneError: the hub does not have it.
    """
    if not is_on_hub(task):
        raise SubtuneError(
            f"source: {TASKS[task].title} is not on the hub; name a directory with its files in "
            f"`directories.{task}`"
        )
    return REPOSITORIES.get(task, OF_GLUE)
