"""GLUE in the official layout: one folder per task, one TSV file per split."""

from collections.abc import Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.tasks import DIAGNOSTIC, TASKS, Task, TaskSpec
from subtune.tasks.formats import text
from subtune.tasks.formats.paths import present

# The files' own column names, where they are not the hub's.
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


def path_of(glue_dir: Path, task: Task, split: str) -> Path:
    """Return the file of a split: ``validation_matched`` is ``dev_matched.tsv``."""
    if split == DIAGNOSTIC:
        return glue_dir / "diagnostic" / "diagnostic.tsv"
    return glue_dir / task.title / f"{split.replace('validation', 'dev')}.tsv"


def paths(directory: str, task: TaskSpec) -> dict[str, Path]:
    """Return every split's file. Test files may be absent; the others may not.

    Raises:
        SubtuneError: the directory or one of its files is not there.
    """
    of_glue = TASKS[task.name]
    splits = (*task.labelled, *of_glue.test)
    names = {split: str(path_of(Path(), of_glue, split)) for split in splits}
    return present("glue_dir", directory, "GLUE's official layout", names, may_lack=of_glue.test)


def rows(path: Path, task: TaskSpec, *, labelled: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of a file. TSV here has no quoting at all: a ``"`` is a letter.

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
