"""Turn rows from files, memory and the hub into files that a configuration can refer to."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import pandas as pd
import pyarrow

from subtune.comparison.user_table import make_name, make_task_name, read_user_table
from subtune.config.fields import REPOSITORY
from subtune.core.errors import SubtuneError, convert_errors, join_names, shorten
from subtune.core.files import Layout, hash_files, hash_text
from subtune.core.hub import pin_revision
from subtune.data.binary_files import cell_text, require_unique_columns
from subtune.data.table_files import FORMATS, PLACE_KEY, is_file
from subtune.tasks import TASKS
from subtune.tasks.task_kind import Cells

if TYPE_CHECKING:
    import datasets

Rows = Union[str, Path, pd.DataFrame, "datasets.Dataset"]
# A dataset on the hub, optionally followed by a colon and the name of a subset.
ON_HUB = re.compile(rf"{REPOSITORY[1:-1]}(:[\w.+-]+)?")
# The usual names of a dev split.
DEV = ("validation", "dev", "valid", "val")


@dataclass(frozen=True)
class Split:
    """The rows of one split.

    Attributes:
        identity: a string that identifies the rows. It changes if the rows change.
        read_frame: returns the rows, or None if a dataset on the hub has no dev split. The index
            contains the places of the rows, such as ``line 3``. The argument is the results
            directory, where the dataset's commit is recorded.
        path: the user's file with the rows, or None if the rows must be written to a new file.
    """

    identity: str
    read_frame: Callable[[Path], pd.DataFrame | None]
    path: Path | None = None


def write_splits(splits: Mapping[str, Split], results: Path, folder: Path) -> dict[str, Path]:
    """Return the path of each split's file, after writing those without one to ``folder``.

    Splits that a dataset on the hub lacks are left out.
    """
    paths = {}
    for name, split in splits.items():
        if split.path:
            paths[name] = split.path.resolve()
        elif (frame := split.read_frame(results)) is not None:
            folder.mkdir(parents=True, exist_ok=True)
            paths[name] = folder / f"{name}.jsonl"
            # pandas cannot write `PLACE_KEY`, because it ends names at NUL characters.
            rows = zip(frame.index, filter(None, json_lines(frame).split("\n")), strict=True)
            lines = (f"{json.dumps({PLACE_KEY: place})[:-1]},{row[1:]}\n" for place, row in rows)
            paths[name].write_text("".join(lines), encoding="utf-8")
    return paths


@contextmanager
def name_options_in_errors(folder: Path) -> Iterator[None]:
    """Make error messages name options instead of files in ``folder``, which users do not know."""
    try:
        yield
    except SubtuneError as error:
        text = str(error)
        for split, option in (("train", "--train"), ("validation", "--dev"), ("test", "--test")):
            text = text.replace(f"{folder}/{split}.jsonl", option)
        raise SubtuneError(text) from None


def name_arguments(text: str) -> str:
    """Replace options of the terminal in a message: ``--minutes 5`` becomes ``minutes=5``."""
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
    """Find the splits that a user passes. Nothing is downloaded.

    Args:
        train: a file, a DataFrame, a dataset on the hub, or a mapping from names of splits to rows.
        dev: rows in any form accepted for ``train``, or the name of a split of ``train``; default:
            the dev split of ``train``, if it has one.
        test: rows in any form accepted for ``train``, or the name of a split of ``train``.
        revision: commit, branch or tag of a dataset on the hub.
        how: the ``encoding`` of files, and the ``sheet`` of Excel files.

    Returns:
        The splits that exist, among ``train``, ``validation`` and ``test``.

    Raises:
        SubtuneError: a file or split does not exist.
    """
    has_splits = _is_on_hub(train) or isinstance(train, Mapping)

    def find(key: str, rows: Any, names: Sequence[str]) -> Split:
        """Find the rows of an option, or the first split among ``names`` that ``train`` has."""
        if isinstance(rows, str) and not Path(rows).suffix and "/" not in rows:
            rows, names = (None, [rows]) if has_splits else (rows, names)
        if rows is not None:
            return _read_split(key, rows, how)
        if isinstance(train, Mapping):
            return _read_split(key, train[_find_name(names, key, train, "the mapping")], how)

        def frame(results: Path) -> pd.DataFrame | None:
            dataset = _download_dataset(train, revision, results)
            if names == DEV and dataset.keys().isdisjoint(names):
                return None
            found = dataset[_find_name(names, key, dataset, str(train))]
            return _number_rows(to_frame(found, f"--{key}"))

        return Split(f"{train} at {revision}: {names[0]}", frame)

    splits = {"train": find("train", None if has_splits else train, ["train"])}
    # A mapping without a dev set is an error if it has splits other than train and test, because
    # the name of the dev set may be misspelt.
    has_dev = has_splits and not (isinstance(train, Mapping) and train.keys() <= {"train", "test"})
    if dev is not None or has_dev:
        splits["validation"] = find("dev", dev, DEV)
    if test is not None:
        splits["test"] = find("test", test, [])
    elif isinstance(train, Mapping) and "test" in train and dev != "test":
        print('the split test is not read; to score on it, add test="test"', file=sys.stderr)
    return splits


def column_names(columns: Any) -> Any:
    """Convert the name of a column, or a list of names, to strings. pandas may number columns."""
    if isinstance(columns, Number):
        return str(columns)
    return columns if columns is None or isinstance(columns, str) else [*map(str, columns)]


def task_name(train: Any) -> str:
    """Derive the name of a task from its training set."""
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
    share = " or a share of the training rows, as in --dev 0.2" if key == "dev" else ""
    raise SubtuneError(
        f"--{key}: {where} has no split {names[0]!r}, expected one of its splits "
        f"({join_names(splits)}){share}"
    )


@cache
def _download_dataset(reference: str, revision: str | None, results: Path) -> Mapping[str, Any]:
    repository, _, subset = reference.partition(":")
    kept = Path(Layout(str(results)).pinned_commits())
    commit = pin_revision(
        repository, revision, "dataset", kept, f"--train: no such file: {reference!r}"
    )
    import datasets

    advice = "add a subset after a colon, as in nyu-mll/glue:cola"
    with convert_errors(f"--train: cannot read {reference} from the hub ({advice})"):
        return datasets.load_dataset(repository, subset or None, revision=commit)


def _read_split(key: str, rows: Any, how: Mapping[str, str | None]) -> Split:
    if isinstance(rows, str | Path):
        path = Path(rows)
        if not is_file(path):
            share = ", or a share of the training rows such as 0.2" if key == "dev" else ""
            raise SubtuneError(
                f"--{key}: no such file: {shorten(str(rows))!r}, expected the path of a file{share}"
            )

        def read_frame(results: Path) -> pd.DataFrame:
            places, cells = zip(*read_user_table(path, **how).rows, strict=True)
            return pd.DataFrame(cells, places)

        # A file in another encoding is converted to a new file in UTF-8.
        return Split(hash_files(path), read_frame, path=None if how.get("encoding") else path)
    if not is_table(rows):
        raise SubtuneError(
            f"--{key}: found {type(rows).__name__}, expected a path, a DataFrame of pandas or "
            "polars, a pyarrow Table, a Dataset, the name of a dataset on the hub, or, for dev, a "
            "share of the training rows such as 0.2"
        )
    table = to_frame(rows, f"--{key}")
    return Split(hash_text(json_lines(table)), lambda results: _number_rows(table))


def _number_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace the index of a table by the places of its rows (``row 1``, ``row 2``, …)."""
    return frame.set_axis([f"row {number}" for number in range(1, len(frame) + 1)])


def is_table(rows: Any) -> bool:
    """Return whether `to_frame` accepts ``rows``."""
    is_other = hasattr(rows, "__arrow_c_stream__") and hasattr(rows, "columns")
    return isinstance(rows, pd.DataFrame) or hasattr(rows, "features") or is_other


def to_frame(rows: Any, source: str) -> pd.DataFrame:
    """Convert a table to a DataFrame. In a ``Dataset``, class indices are replaced by class names.

    ``rows`` is a DataFrame of pandas or polars, a ``Dataset``, or a pyarrow Table. Two columns with
    the same name raise a `SubtuneError`, which begins with ``source``.
    """
    # A DataFrame has an attribute for each column, which may be called "features".
    if isinstance(rows, pd.DataFrame):
        frame = rows
    elif hasattr(rows, "features"):
        frame = rows.to_pandas()
        for column, feature in rows.features.items():
            # In a multi-label dataset, a cell is a list of class indices.
            is_list = hasattr(feature, "feature")
            if names := getattr(feature.feature if is_list else feature, "names", None):
                name_of = dict(enumerate(names)).get
                frame[column] = [
                    [*map(name_of, cell)] if is_list else name_of(cell) for cell in frame[column]
                ]
    else:
        table = pyarrow.table(rows)
        frame = pd.DataFrame(table.to_pylist(), columns=table.column_names, dtype=object)
    require_unique_columns([*map(str, frame.columns)], source)
    return frame


def json_lines(frame: pd.DataFrame) -> str:
    """Convert a table to JSON lines, whose hash identifies the table."""
    with convert_errors("the table cannot be written as JSON lines"):
        # pandas stores integers with missing values as floats, which would be written as 1.0.
        frame = frame.apply(lambda cells: cells.convert_dtypes() if cells.hasnans else cells)
        frame = frame.apply(
            lambda cells: cells if cells.dtype == "str" else cells.map(_keep_digits)
        )
        return frame.to_json(orient="records", lines=True, force_ascii=False, date_format="iso")


def _keep_digits(cell: Any) -> Any:
    """Convert a number to a string if pandas, which writes ten decimals, would change it."""
    is_number = isinstance(cell, float | Decimal | np.floating) and cell == cell
    is_changed = is_number and (abs(cell) == math.inf or round(cell, 10) != cell)
    return str(cell) if is_changed else cell


def dataframe_to_cells(frame: pd.DataFrame) -> list[Cells]:
    """Convert the rows of a table to cells, as if they were read from a file."""
    lines = filter(None, json_lines(frame).split("\n"))
    rows = (json.loads(line, parse_int=str, parse_float=str) for line in lines)
    return [{column: cell_text(cell) for column, cell in row.items()} for row in rows]
