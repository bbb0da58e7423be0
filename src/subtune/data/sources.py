"""Sources of the data of a task: the package (mini tasks), files or the hub.

A mini task has a few hundred English examples in the format of a real task. Each example occurs
once, so the splits do not overlap. One label in twenty is wrong, so that no method is perfect.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError, format_allowed, format_missing_column, shorten
from subtune.core.files import hash_files, read_package_text
from subtune.core.hub import GLUE, SQUAD, UNIVERSAL_DEPENDENCIES
from subtune.data.corpora import read_glue_rows, read_questions, read_sentences
from subtune.data.subsets import divide_rows, find_sets
from subtune.data.table_files import FORMATS, is_directory, is_file, read_texts, use_rows
from subtune.models.families import (
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.runs.spec import DataSpec
from subtune.tasks import DIAGNOSTIC, TASKS, Task, TaskSpec
from subtune.tasks.examples import PLACE, SET
from subtune.tasks.task import USUAL_SIZE, TaskSize
from subtune.tasks.task_kind import NO_LABEL, Cells, Columns, PlacedRow, pair_with_places

MINI_TASKS = ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp", "ud_ewt", "squad")
# Estimates for English text: special tokens per example, and subword tokens per word.
SPECIAL_TOKENS = 3
TOKENS_PER_WORD = 1.3
# The maximum number of texts on which a tokenizer is tested.
TRIED = 200
# The file of each split.
SplitFiles = dict[str, Path]
# The columns that `read_columns` returned last, by its arguments and the hash of the files.
LAST_READ: dict[Hashable, dict[str, Columns]] = {}
# The official files of built-in tasks that do not belong to GLUE. Test files may be absent.
OFFICIAL_NAMES = {
    # The files of PTB are not published. The documentation shows how to create them from the Penn
    # Treebank's trees.
    "ptb": {"train": "train.conllu", "validation": "dev.conllu", "test": "test.conllu"},
    "ud_ewt": {
        "train": "en_ewt-ud-train.conllu",
        "validation": "en_ewt-ud-dev.conllu",
        "test": "en_ewt-ud-test.conllu",
    },
    "squad": {"train": "train-v1.1.json", "validation": "dev-v1.1.json"},
}


class Reader(NamedTuple):
    """A reader of the files of a task.

    Attributes:
        endings: the extensions that a user's files may have.
        read: reads rows, given the task, the file, and whether the rows have labels.
    """

    endings: tuple[str, ...]
    read: Callable[[TaskSpec, Path, bool], Iterable[PlacedRow]]


# Maps the head of a kind of task to the reader of its files.
READERS = {
    SEQUENCE_CLASSIFICATION: Reader(FORMATS, read_texts),
    TOKEN_CLASSIFICATION: Reader((".conllu", ".conll", ".txt", ".jsonl"), read_sentences),
    QUESTION_ANSWERING: Reader((".json",), read_questions),
}


def task_reader(task: TaskSpec) -> Reader:
    """Return the reader for the files of a task."""
    return READERS[task.of_kind.head]


def user_task_files(files: Mapping[str, str], task: Task, optional_split: str = "") -> SplitFiles:
    """Check the files of a user-defined task, and return their paths by split.

    The labelled split ``optional_split`` may be missing from ``files``.
    """
    key, splits = f"tasks.{task.name}.files", (*task.labelled_splits, *task.test)
    for split in files:
        if split not in splits:
            raise SubtuneError(f"{key}: {format_allowed(split, splits)}")
    for split in task.labelled_splits:
        if split not in files and split != optional_split:
            or_folds = ", or `folds` in the experiment" if split == task.evaluation[0] else ""
            raise SubtuneError(f"{key}: {split!r} is missing, expected a path{or_folds}")
    paths, endings = {split: Path(path) for split, path in files.items()}, task_reader(task).endings
    for split, path in paths.items():
        if path.suffix.lower() not in endings:
            raise SubtuneError(
                f"{key}.{split}: {path}: extension: {format_allowed(path.suffix, endings)}"
            )
        if not is_file(path):
            raise SubtuneError(f"{key}.{split}: no such file {str(path)!r}; fix the path")
    return paths


def official_files(directory: str, task: TaskSpec, source: str = "files") -> SplitFiles:
    """Map a built-in task's splits to official files. For ``tsv``, they have GLUE's layout."""
    if source == "tsv":
        key, expected = "glue_dir", "GLUE's official layout"
        folder = TASKS[task.name].title
        splits = (*task.labelled_splits, *TASKS[task.name].test)
        # For example, GLUE's file for `validation_matched` is `dev_matched.tsv`.
        names = {split: f"{folder}/{split.replace('validation', 'dev')}.tsv" for split in splits}
        if DIAGNOSTIC in names:
            names[DIAGNOSTIC] = "diagnostic/diagnostic.tsv"
    else:
        key, names = f"directories.{task.name}", OFFICIAL_NAMES[task.name]
        expected = f"one with {', '.join(names.values())}"
    if not is_directory(directory):
        raise SubtuneError(f"{key}: found no directory {directory!r}, expected {expected}")
    paths = {split: Path(directory, name) for split, name in names.items()}
    for split, path in paths.items():
        if split in task.labelled_splits and not is_file(path):
            raise SubtuneError(f"{key}: {path} is missing, expected the file of split {split!r}")
    return {split: path for split, path in paths.items() if is_file(path)}


def read_columns(
    task: TaskSpec,
    paths: Mapping[str, Path],
    source: str = "files",
    tables: Mapping[str, Sequence[PlacedRow]] | None = None,
) -> dict[str, Columns]:
    """Read the columns of each split from files or the package. Unchanged files are read once.

    ``tables`` contains the rows of files that `subtune.data.table_files.read_rows` has read.
    """
    if source == "builtin":
        convert = partial(make_columns, task, source=f"mini task {task.name}")
        return {
            split: convert(pair_with_places(rows), labelled=split in task.labelled_splits)
            for split, rows in mini_rows(task.name).items()
        }
    key = task, tuple(paths.items()), source, files_version(paths)
    if key not in LAST_READ:
        columns, read = {}, read_glue_rows if source == "tsv" else task_reader(task).read
        for split, path in paths.items():
            labelled = split in task.labelled_splits
            rows: Iterable[PlacedRow]
            if tables:
                rows = use_rows(task, tables[split], path, labelled)
            else:
                rows = read(task, path, labelled)
            columns[split] = make_columns(task, rows, labelled=labelled, source=str(path))
            task.of_kind.require_different_labels(task, split, path, columns[split])
        LAST_READ.clear()
        LAST_READ[key] = columns
    return dict(LAST_READ[key])


def make_columns(
    task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
) -> Columns:
    """Convert the rows of one split to columns. Error messages begin with ``source``.

    The columns are ``idx`` (the indices of the rows, from 0), `PLACE`, those of the task's kind
    (`TaskKind.column_types`), and `SET`.
    """
    table, groups = [], []
    for number, (where, row) in enumerate(rows):
        place = f"{source}: {where}"
        for column in task.columns_read(labelled):
            if column not in row:
                raise SubtuneError(f"{place}: {format_missing_column(column, row)}")
        table.append((number, where, *task.of_kind.parse_row(task, row, labelled, place)))
        group = row.get(task.group) if task.group else None
        groups.append(None if group is None else str(group))
    if not table:
        raise SubtuneError(f"{source}: found no rows, expected at least one")
    columns = map(list, zip(*table, strict=True))
    found = dict(zip(("idx", PLACE, *task.of_kind.column_types(task)), columns, strict=True))
    return found | {SET: find_sets(task.of_kind.texts(found), groups)}


def files_version(paths: Mapping[str, Path]) -> str:
    """Hash the contents of the splits' files."""
    try:
        return hash_files(*(paths[split] for split in sorted(paths)))
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{error.filename}: {reason}, expected a readable file") from None


def require_unchanged_files(spec: DataSpec, paths: Mapping[str, Path]) -> None:
    """Check that files have not changed since the plan. Call this after reading the files."""
    if paths and files_version(paths) != spec.version:
        raise SubtuneError(
            f"{', '.join(map(str, paths.values()))}: changed since the plan was made; run "
            "snakemake again"
        )


def mini_rows(task_name: str) -> dict[str, list[Cells]]:
    """Return the rows of all splits of a mini task. The test set has no labels."""
    text = read_package_text("subtune.data", f"minitasks/{task_name}.jsonl")
    splits: dict[str, list[Cells]] = {}
    for line in text.splitlines():
        row = json.loads(line)
        splits.setdefault(row.pop("split"), []).append(row)
    return splits


def mini_version(task_name: str) -> str:
    """Hash all rows of a mini task."""
    text = json.dumps(mini_rows(task_name), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Repository(NamedTuple):
    """A dataset repository on the hub.

    Attributes:
        files: the glob pattern of a split's files, with ``{task}`` and ``{split}``.
        instead: advice for users who cannot reach the hub.
        row: converts a row on the hub to a row of the task; None if no conversion is needed.
    """

    name: str
    files: str
    instead: str
    row: Callable[[Cells], Cells] | None = None

    def pattern(self, task: str, split: str) -> str:
        # On the hub, GLUE's diagnostic set is the test set of a task `ax`.
        folder, part = ("ax", "test") if split == DIAGNOSTIC else (task, split)
        return self.files.format(task=folder, split=part)


def _convert_hub_sentence(row: Cells) -> Cells:
    """Return a sentence's words and tags, without multiword tokens and empty nodes."""
    # Multiword tokens precede their words and have no tag. Heads of empty nodes are not numbers.
    cells = zip(row["tokens"], row["xpos"], row["head"], strict=True)
    words = [cell[:2] for cell in cells if cell[1] not in (None, "_") and str(cell[2]).isdecimal()]
    return {"form": [word for word, _ in words], "xpos": [tag for _, tag in words]}


OF_GLUE = Repository(GLUE, "{task}/{split}-*.parquet", "set `source: tsv` and a `glue_dir`")
REPOSITORIES = {
    "squad": Repository(
        SQUAD,
        "plain_text/{split}-*.parquet",
        "set `directories.squad` to a directory with SQuAD's files",
        row=dict,
    ),
    "ud_ewt": Repository(
        UNIVERSAL_DEPENDENCIES,
        "en_ewt/{split}/*.parquet",
        "set `directories.ud_ewt` to a directory with the treebank's files",
        row=_convert_hub_sentence,
    ),
}


def task_size(task: Task, source: str, paths: Mapping[str, Path]) -> TaskSize:
    """Return a task's size, counted for a user's files and mini tasks; otherwise, as defined."""
    if source in ("builtin", "files"):
        return measure_columns(task, read_columns(task, paths, source))
    return task.size or USUAL_SIZE


def find_weighting_error(
    task: TaskSpec, train: Columns, without: Sequence[int] | np.ndarray = ()
) -> str | None:
    """Return why labels cannot be weighted if some rows are left out; None if they can."""
    kind, labels = task.of_kind, train["label"]
    by_row = kind.head == SEQUENCE_CLASSIFICATION
    labels = [labels[row] for row in np.setdiff1d(range(len(labels)), without)]
    try:
        kind.balanced_weights(task, np.array(labels) if by_row else np.concatenate(labels))
    except SubtuneError as error:
        return str(error)
    return None


def find_scoring_error(task: TaskSpec, train: Columns, rows: np.ndarray) -> str | None:
    """Return why a scorer of a task is undefined on ``rows``; None if all are defined."""
    from subtune.tasks.scorers import compute_score

    labels = np.array(train["label"])[rows]
    logits = np.random.default_rng(0).normal(size=(len(labels), task.outputs))
    try:
        for name in task.scorers:
            compute_score(name, logits, labels, task.metric_code)
    except SubtuneError as error:
        return str(error)
    return None


def divide_columns(task: TaskSpec, train: Columns, folds: int, partition: int) -> list[np.ndarray]:
    """Divide the rows of a training set into folds, as `divide_rows` does."""
    labels = train["label"]
    by_row = task.of_kind.head == SEQUENCE_CLASSIFICATION
    strata = np.array(labels if by_row else range(len(labels)))
    return divide_rows(task, np.array(train[SET]), strata, folds, partition)


def measure_columns(task: Task, columns: Mapping[str, Columns]) -> TaskSize:
    """Compute the size of a task from the columns of its splits."""
    texts = {split: list(task.of_kind.texts(cells)) for split, cells in columns.items()}
    train, evaluation = texts["train"], sum(len(texts.get(s, ())) for s in task.evaluation)
    together = "groups that share no text" if task.group else "different texts"
    counts = {together: len({*columns["train"][SET]})}
    weighting_error = rarest = None
    if task.labels:
        if task.of_kind.head == SEQUENCE_CLASSIFICATION:
            # Every fold must contain the most frequent label, but need not contain rarer labels.
            strata = task.of_kind.strata(np.array(columns["train"]["label"]))
            counted = Counter(strata.tolist())
            [(label, rows)] = counted.most_common(1)
            rarest = min(counted.values())
            name = "none" if label == NO_LABEL else shorten(task.labels[label])
            counts[f"rows of label {name!r}"] = rows
        weighting_error = find_weighting_error(task, columns["train"])
    words = sum(len(text.split()) for row in train for text in row)
    step = -(-len(train) // TRIED)
    return TaskSize(
        train_rows=len(train),
        evaluation_rows=evaluation,
        test_rows=sum(map(len, texts.values())) - len(train) - evaluation,
        tokens=SPECIAL_TOKENS + TOKENS_PER_WORD * words / len(train),
        scarcest=min(counts.items(), key=itemgetter(1)),
        rarest=rarest,
        weighting_error=weighting_error,
        sample=tuple(map(" ".join, train[::step])),
    )
