"""GLUE's published files of tab-separated values."""

from collections.abc import Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.data.text_files import read_text, split_lines
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow

# Column names that differ from the hub's.
COLUMNS = {
    "mnli": {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    "mrpc": {"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label"},
    "stsb": {"score": "label"},
    "qqp": {"is_duplicate": "label"},
}
# CoLA's labelled files have no header.
HEADERLESS = {"cola": ("source", "label", "original_label", "sentence")}
# The published QQP files have a few truncated lines, which the hub's copy leaves out too.
CUT_OFF_LINES = ("qqp",)


def read_glue_rows(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Read the rows of one of GLUE's files. They have no quoting: ``"`` is an ordinary character.

    Raises:
        SubtuneError: a line has too few columns, or the file is not UTF-8.
    """
    rename = COLUMNS.get(task.name, {})
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
