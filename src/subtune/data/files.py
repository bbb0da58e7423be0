"""Files with rows: a user's own, one per split, or a task's official files.

They must not change between the plan and the jobs.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import FileState, file_state, hash_files
from subtune.data.readers import reader_of
from subtune.data.readers.glue import glue_rows
from subtune.data.readers.text import ending_of, is_directory, is_file
from subtune.runs.spec import DataSpec
from subtune.tasks import DIAGNOSTIC, TASKS, Task, TaskSpec
from subtune.tasks.task_kind import Columns, PlacedRow, numbered

# The most changed files that an error message names.
NAMED_FILES = 3
# Each split's files.
Paths = dict[str, tuple[Path, ...]]
# Each split's official file. Test files may be absent.
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
# The folders, below a user's directory, in which the Wall Street Journal part of the Penn Treebank
# may be.
TREEBANK_FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "treebank_3/parsed/mrg/wsj")
# Its sections, as part-of-speech taggers split them (Collins 2002, Section 5; Toutanova et al.
# 2003, Section 3).
TREEBANK_SECTIONS = {"train": slice(0, 19), "validation": slice(19, 22), "test": slice(22, 25)}


def paths_of(
    task: TaskSpec,
    source: str,
    splits: Collection[str],
    glue_dir: str | None = None,
    files: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> Paths:
    """Return the files of some splits; an empty mapping if the rows are not in files.

    Args:
        task: the task.
        source: the configuration's source. The other arguments depend on it.
        splits: the splits.
        glue_dir: for the source ``tsv``, the directory of GLUE's files.
        files: for the source ``files``, a user's own file of each split.
        directory: for the source ``files``, the directory of a task's official files.

    Raises:
        SubtuneError: a file is missing.
    """
    if source == "tsv" or directory:
        found = official_paths(directory or str(glue_dir), task, source)
    else:
        found = {split: (_own_path(files, task, split),) for split in splits} if files else {}
    return {split: found[split] for split in splits if split in found}


def own_paths(files: Mapping[str, str], task: Task, may_lack: str = "") -> Paths:
    """Return the files of a user's own task by split.

    Args:
        files: the path of each split's file.
        task: the task.
        may_lack: a labelled split that may have no file.

    Raises:
        SubtuneError: a split or a file is missing, or unknown.
    """
    key, splits = f"tasks.{task.name}.files", (*task.labelled, *task.test)
    for split in files:
        if split not in splits:
            raise SubtuneError(f"{key}: {one_of(split, splits)}")
    for split in task.labelled:
        if split not in files and split != may_lack:
            or_folds = ", or `folds` in its experiment" if split == task.evaluation[0] else ""
            raise SubtuneError(f"{key}: {split!r} is missing, expected a path{or_folds}")
    return paths_of(task, "files", files, files=files)


def _own_path(files: Mapping[str, str], task: TaskSpec, split: str) -> Path:
    key, path, endings = (
        f"tasks.{task.name}.files.{split}",
        Path(files[split]),
        reader_of(task).endings,
    )
    if ending_of(path) not in endings:
        expected = one_of(path.suffix, endings)
        raise SubtuneError(f"{key}: {expected} as the ending of {path}")
    if not is_file(path):
        raise SubtuneError(f"{key}: found no file {str(path)!r}")
    return path


def official_paths(directory: str, task: TaskSpec, source: str = "files") -> Paths:
    """Return the official files of each split of a built-in task. Test files may be absent.

    Raises:
        SubtuneError: the directory, or a file with labels, is missing.
    """
    key, names = f"directories.{task.name}", NAMES.get(task.name, {})
    if source == "tsv":
        splits = (*task.labelled, *TASKS[task.name].test)
        key, names = "glue_dir", {s: str(glue_path(Path(), TASKS[task.name], s)) for s in splits}
    if not is_directory(directory):
        expected = f"one with {', '.join(names.values()) or 'the sections of the Penn Treebank'}"
        expected = "GLUE's official layout" if source == "tsv" else expected
        raise SubtuneError(f"{key}: found no directory {directory!r}, expected {expected}")
    if not names:
        return treebank_paths(Path(directory), key)
    paths = {split: Path(directory, name) for split, name in names.items()}
    for split, path in paths.items():
        if split in task.labelled and not is_file(path):
            raise SubtuneError(f"{key}: {path} is missing, expected the {split} file")
    return {split: (path,) for split, path in paths.items() if is_file(path)}


def treebank_paths(directory: Path, key: str) -> Paths:
    """Return the files of each split of the Penn Treebank's Wall Street Journal part.

    Args:
        directory: the disc's root, the folder of the sections ``00`` to ``24``, or a folder
            between them.
        key: the beginning of messages.

    Raises:
        SubtuneError: a section is missing.
    """
    folders = (directory / folder for folder in TREEBANK_FOLDERS)
    root = next((folder for folder in folders if (folder / "00").is_dir()), directory)
    files = [sorted((root / f"{section:02}").glob("*.[mM][rR][gG]")) for section in range(25)]
    if missing := [f"{section:02}" for section, found in enumerate(files) if not found]:
        raise SubtuneError(
            f"{key}: {root}: found no .mrg files of section {', '.join(missing)}, expected those "
            "of the Wall Street Journal, 00 to 24, in it or in its parsed/mrg/wsj"
        )
    return {split: tuple(chain(*files[part])) for split, part in TREEBANK_SECTIONS.items()}


def glue_path(glue_dir: Path, task: Task, split: str) -> Path:
    """Return GLUE's file of a split: ``validation_matched`` is ``dev_matched.tsv``."""
    if split == DIAGNOSTIC:
        return glue_dir / "diagnostic" / "diagnostic.tsv"
    return glue_dir / task.title / f"{split.replace('validation', 'dev')}.tsv"


def columns_of(
    task: TaskSpec, by_split: Mapping[str, Sequence[Path]], source: str = "files"
) -> dict[str, Columns]:
    """Return the columns that the task's kind reads from each split's files.

    Files that have not changed since the last call are not read again.

    Raises:
        SubtuneError: a file cannot be read, a row does not fit the task, or the rows cannot be used
            for training or scores.
    """
    paths = tuple((split, tuple(files)) for split, files in by_split.items())
    states = tuple(file_state(path) for _, files in paths for path in files)
    return dict(_read_once(task, paths, source, states))


@lru_cache(maxsize=1)
def _read_once(
    task: TaskSpec,
    by_split: tuple[tuple[str, tuple[Path, ...]], ...],
    source: str,
    states: tuple[FileState, ...],
) -> dict[str, Columns]:
    columns = {}
    for split, files in by_split:
        labelled = split in task.labelled
        # The file, or the directory that several files share.
        place = os.path.commonpath(files)
        rows = (
            (where if str(path) == place else f"{path.relative_to(place)}: {where}", row)
            for path in files
            for where, row in _rows_of(task, source, path, labelled)
        )
        columns[split] = task.of_kind.from_rows(task, rows, labelled=labelled, source=place)
        task.of_kind.require_sound(task, split, files[0], columns[split])
    return columns


def _rows_of(task: TaskSpec, source: str, path: Path, labelled: bool) -> Iterable[PlacedRow]:
    if source == "tsv":
        return numbered(glue_rows(path, task, labelled=labelled))
    return reader_of(task).read(task, path, labelled)


def version_of(paths: Mapping[str, Sequence[Path]]) -> str:
    """Return the hash of the content of some splits' files.

    Raises:
        SubtuneError: a file cannot be read.
    """
    files = [path for split in sorted(paths) for path in paths[split]]
    try:
        return hash_files(*files)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{error.filename}: {reason}, expected a file to read") from None


def require_version(spec: DataSpec, paths: Mapping[str, Sequence[Path]]) -> None:
    """Refuse rows whose files have changed since the plan. Call this after reading the rows."""
    if paths and version_of(paths) != spec.version:
        names = [str(path) for files in paths.values() for path in files]
        if len(names) > NAMED_FILES:
            names = [f"{names[0]} or one of {len(names) - 1:,} others"]
        raise SubtuneError(
            f"{', '.join(names)}: changed since the plan was made; call snakemake again"
        )
