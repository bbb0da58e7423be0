"""Rows from files, from memory and from the hub, as files that a configuration can name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import pandas as pd

from subtune.comparison.user_table import make_name, make_task_name, read_user_table
from subtune.config.fields import REPOSITORY
from subtune.core.errors import SubtuneError, cut, listed, one_line
from subtune.core.files import Layout, hash_files, hash_text
from subtune.core.hub import pin_revision
from subtune.data.table_files import FORMATS, is_file
from subtune.tasks import TASKS

if TYPE_CHECKING:
    import datasets

Rows = Union[str, Path, pd.DataFrame, "datasets.Dataset"]
# A dataset on the hub, with the name of its subset, if any, after a colon.
ON_HUB = re.compile(rf"(?P<repository>{REPOSITORY[1:-1]})(:(?P<subset>[\w.+-]+))?")
# The usual names of a split to evaluate on.
DEV = ("validation", "dev", "valid", "val")


@dataclass(frozen=True)
class Split:
    """The rows of one split.

    Attributes:
        identity: a text that is different for different rows.
        frame: a function that returns the rows, or None if a dataset on the hub has no dev rows.
            Its argument is the results directory, where commits of the hub are pinned.
        path: the user's own file with the rows.
    """

    identity: str
    frame: Callable[[Path], pd.DataFrame | None]
    path: Path | None = None


def write_splits(splits: Mapping[str, Split], results: Path, folder: Path) -> dict[str, Path]:
    """Return each split's file: the user's own, or a new one in ``folder``. Skip missing splits."""
    paths = {}
    for name, split in splits.items():
        if split.path:
            paths[name] = split.path.resolve()
        elif (frame := split.frame(results)) is not None:
            folder.mkdir(parents=True, exist_ok=True)
            paths[name] = folder / f"{name}.jsonl"
            paths[name].write_text(_json_lines(frame), encoding="utf-8")
    return paths


@contextmanager
def name_rows(folder: Path) -> Iterator[None]:
    """Name options in errors about the files in ``folder``: rows from memory and from the hub."""
    try:
        yield
    except SubtuneError as error:
        text = str(error)
        for split, option in (("train", "--train"), ("validation", "--dev"), ("test", "--test")):
            path = f"{folder}/{split}.jsonl"
            text = text.replace(f"{path}: line ", f"{option}: row ").replace(path, option)
        raise SubtuneError(text) from None


@contextmanager
def errors_in_python() -> Iterator[None]:
    """Name Python's arguments in place of the terminal's options in errors."""
    try:
        yield
    except SubtuneError as error:
        raise SubtuneError(name_arguments(str(error))) from None


def name_arguments(text: str) -> str:
    """Return a message in which ``--minutes 5`` is ``minutes=5``."""
    return re.sub(
        r"(?<!\w)--([a-z][a-z-]+)(?: (?=[\d\"]))?",
        lambda option: option[1].replace("-", "_") + "=" * option[0].endswith(" "),
        text,
    )


def find_splits(
    train: Rows | Mapping[str, Rows],
    dev: Rows | None = None,
    test: Rows | None = None,
    revision: str | None = None,
    **how: str | None,
) -> dict[str, Split]:
    """Return the splits for the rows that a user passes; nothing is downloaded.

    Args:
        train: a file, a table, a dataset on the hub, or a mapping of splits.
        dev: rows like ``train``, or the name of one of ``train``'s splits; default: ``train``'s own
            dev rows, if it has some.
        test: rows like ``train``, or the name of one of ``train``'s splits.
        revision: commit, branch or tag of a dataset on the hub.
        how: ``encoding`` of files, and ``sheet`` of Excel files.

    Raises:
        SubtuneError: there is no such file or split.
    """
    has_splits = _is_on_hub(train) or isinstance(train, Mapping)
    named = partial(_find_split, train, revision, how)

    def named_or_own(key: str, rows: Any) -> Split:
        is_name = isinstance(rows, str) and not Path(rows).suffix and "/" not in rows
        return named(key, rows) if has_splits and is_name else _split_of_rows(key, rows, how)

    splits = {"train": named("train", "train") if has_splits else named_or_own("train", train)}
    # A mapping without dev rows is fine, but an unknown name in it may be a typo.
    has_dev = not (isinstance(train, Mapping) and train.keys() <= {"train", "test"})
    if dev is not None:
        splits["validation"] = named_or_own("dev", dev)
    elif has_splits and has_dev:
        splits["validation"] = named("dev", *DEV)
    if test is not None:
        splits["test"] = named_or_own("test", test)
    return splits


def _find_split(
    train: Any, revision: str | None, how: Mapping[str, str | None], key: str, *names: str
) -> Split:
    """Return the split of a mapping, or of a dataset on the hub, with the first of some names."""
    if isinstance(train, Mapping):
        return _split_of_rows(key, train[_find_name(names, key, train, "the mapping")], how)

    def frame(results: Path) -> pd.DataFrame | None:
        dataset = _download_dataset(train, revision, results)
        if names == DEV and dataset.keys().isdisjoint(names):
            return None
        return _to_frame(dataset[_find_name(names, key, dataset, train)])

    return Split(f"{train} at {revision}: {names[0]}", frame)


def column_names(columns: Any) -> Any:
    """Return a column's name as text, or a list of names.

    The names may be numbers, because pandas numbers columns that have no names.
    """
    if isinstance(columns, Number):
        return str(columns)
    return columns if columns is None or isinstance(columns, str) else [*map(str, columns)]


def task_name(train: Any) -> str:
    """Return a task's name from its training rows."""
    if _is_on_hub(train):
        return make_name(re.sub(".*/", "", train), TASKS, "task")
    return make_task_name(Path(train)) if isinstance(train, str | Path) else "table"


def _is_on_hub(rows: Any) -> bool:
    is_name = isinstance(rows, str) and not Path(rows).exists() and ON_HUB.fullmatch(rows)
    return bool(is_name) and Path(rows).suffix.lower() not in FORMATS


def _find_name(names: Sequence[str], key: str, splits: Mapping[str, Any], where: str) -> str:
    for name in names:
        if name in splits:
            return name
    raise SubtuneError(
        f"--{key}: found no {names[0]!r} in {where}, expected one of its splits "
        f'({listed(splits)}), as in --dev "test", or a share of the training rows, as in --dev 0.2'
    )


@cache
def _download_dataset(reference: str, revision: str | None, results: Path) -> Mapping[str, Any]:
    match = ON_HUB.fullmatch(reference)
    assert match
    repository, subset = match["repository"], match["subset"]
    kept = Path(Layout(str(results)).pinned())
    commit = pin_revision(
        repository, revision, "dataset", kept, f"--train: no file {reference!r} here"
    )
    import datasets

    advice = "a subset is named after a colon, as in nyu-mll/glue:cola"
    with one_line(f"--train: cannot read {reference} from the hub ({advice})"):
        return datasets.load_dataset(repository, subset, revision=commit)


def _split_of_rows(key: str, rows: Any, how: Mapping[str, str | None]) -> Split:
    if isinstance(rows, str | Path):
        path = Path(rows)
        if not is_file(path):
            share = ", or a share of the training rows such as 0.2" if key == "dev" else ""
            raise SubtuneError(f"--{key}: found no file {cut(str(rows))!r}, expected one{share}")
        # Rows in another encoding are written to a new file in UTF-8.
        return Split(
            hash_files(path),
            lambda results: pd.DataFrame([row for _, row in read_user_table(path, **how).rows]),
            path=None if how.get("encoding") else path,
        )
    if not hasattr(rows, "columns") and not hasattr(rows, "features"):
        raise SubtuneError(
            f"--{key}: found {type(rows).__name__}, expected a path, a pandas DataFrame, a "
            "Dataset, the name of a dataset on the hub, or for dev a share of the training rows "
            "such as 0.2"
        )
    table = _to_frame(rows)
    return Split(hash_text(_json_lines(table)), lambda results: table)


def _to_frame(rows: Any) -> pd.DataFrame:
    """Return rows as a table with names of classes instead of their numbers."""
    if not hasattr(rows, "features"):
        return rows
    frame = rows.to_pandas()
    for column, feature in rows.features.items():
        # A row with several classes has a list.
        is_list, cell_feature = hasattr(feature, "feature"), getattr(feature, "feature", feature)
        if names := getattr(cell_feature, "names", None):
            word = dict(enumerate(names)).get
            frame[column] = [[*map(word, n)] if is_list else word(n) for n in frame[column]]
    return frame


def _json_lines(frame: pd.DataFrame) -> str:
    with one_line("the table cannot be written as JSON lines"):
        # A missing value turns a column of integers into decimals.
        frame = frame.apply(lambda cells: cells.convert_dtypes() if cells.hasnans else cells)
        return frame.to_json(orient="records", lines=True, force_ascii=False, date_format="iso")
