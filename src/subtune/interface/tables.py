"""Rows from files, from memory and from the hub, as files that a configuration can name."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from subtune.config.schema import REPOSITORY
from subtune.core.content_ids import fingerprint, id_of
from subtune.core.errors import SubtuneError, cut, listed, one_line
from subtune.core.layout import Layout
from subtune.hub import pinned
from subtune.init import tables
from subtune.init.tables import named_like, task_named_after
from subtune.tasks import TASKS
from subtune.tasks.formats import is_file

if TYPE_CHECKING:
    import datasets
    import pandas as pd

Rows = Union[str, Path, "pd.DataFrame", "datasets.Dataset"]
# A dataset on the hub, after a colon the subset that it needs a name for.
ON_HUB = re.compile(rf"(?P<repository>{REPOSITORY[1:-1]})(:(?P<subset>[\w.+-]+))?")
# Names that datasets give to the split to evaluate on.
DEV = ("validation", "dev", "valid", "val")


@dataclass(frozen=True)
class Split:
    """The rows of one split.

    ``identity`` differs where the rows may differ. ``frame`` returns them, or None if a dataset on
    the hub turns out to have no dev rows; its argument is the results directory, which keeps the
    commits of the hub. ``path``: the user's own file of them.
    """

    identity: str
    frame: Callable[[Path], "pd.DataFrame | None"]
    path: Path | None = None

    def written(self, results: Path, stem: Path) -> Path | None:
        """Return a file of the rows: the user's own, or one with JSON lines that is made here."""
        if self.path:
            return self.path.resolve()
        frame = self.frame(results)
        if frame is None:
            return None
        target = stem.with_suffix(".jsonl")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_json_lines(frame), encoding="utf-8")
        return target


def splits_of(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None,
    test: Rows | None,
    revision: str | None,
    encoding: str | None = None,
    sheet: str | None = None,
    may_lack_dev: bool = False,
) -> dict[str, Split]:
    """Return the splits of a call, of which nothing is downloaded yet.

    Args:
        train: a file, a table, a dataset on the hub, or a mapping of splits.
        dev: the same, or the name of one of ``train``'s splits, or a share of the training rows.
        test: as ``dev``, but no share.
        revision: commit, branch or tag of a dataset on the hub.
        encoding: of files.
        sheet: of Excel files.
        may_lack_dev: there need not be rows to evaluate on, if ``dev`` names none.

    Raises:
        SubtuneError: there is no such file, or nothing to evaluate on.
    """
    how = {key: of for key, of in (("encoding", encoding), ("sheet", sheet)) if of}
    first = training_split(train, revision, **how)
    has_splits = _has_splits(train)

    def other(key: str, rows: Any) -> Split:
        is_name = isinstance(rows, str) and not Path(rows).suffix and "/" not in rows
        if has_splits and (rows is None or is_name):
            names = DEV if rows is None else [rows]
            # Another split of a mapping may be a mistyped one.
            may_lack = may_lack_dev and rows is None and not isinstance(train, Mapping)
            return _named_split(train, revision, how, key, names, may_lack)
        return _split(key, rows, how)

    if isinstance(dev, float):
        splits = _divided(first, dev)
    elif dev is None and may_lack_dev and not _may_have_dev(train):
        splits = {"train": first}
    elif dev is None and not has_splits:
        raise SubtuneError(
            "dev: missing, expected rows to evaluate on: a table, a file, or a share of the "
            "training rows such as 0.2"
        )
    else:
        splits = {"train": first, "validation": other("dev", dev)}
    return splits if test is None else splits | {"test": other("test", test)}


def training_split(
    train: Rows | Mapping[str, Rows], revision: str | None = None, **how: str
) -> Split:
    """Return the split to train on. ``how`` has the ``encoding`` and ``sheet`` of files.

    Raises:
        SubtuneError: there is no such file.
    """
    if _has_splits(train):
        return _named_split(train, revision, how, "train", ["train"])
    return _split("train", train, how)


def name_of(train: Any) -> str:
    """Return a task's name for its training rows."""
    if _is_on_hub(train):
        return named_like(re.sub(".*/", "", train), TASKS, "task")
    return task_named_after(Path(train)) if isinstance(train, str | Path) else "table"


def _is_on_hub(rows: Any) -> bool:
    is_name = isinstance(rows, str) and not Path(rows).exists() and ON_HUB.fullmatch(rows)
    return bool(is_name) and Path(rows).suffix not in tables.FORMATS


def _may_have_dev(train: Any) -> bool:
    """Return whether rows have dev rows by a usual name. The hub is not asked yet."""
    return bool(set(train) - {"train", "test"}) if isinstance(train, Mapping) else _is_on_hub(train)


def _has_splits(rows: Any) -> bool:
    return isinstance(rows, Mapping) or _is_on_hub(rows)


def _named_split(
    train: Any,
    revision: str | None,
    how: Mapping[str, str],
    key: str,
    names: Sequence[str],
    may_lack: bool = False,
) -> Split:
    """Return a split of a mapping or of a dataset on the hub, by the first of its names there."""
    if isinstance(train, Mapping):
        return _split(key, train[_name_among(names, key, train, "the mapping")], how)

    def frame(results: Path) -> "pd.DataFrame | None":
        of_hub = _downloaded(train, revision, results)
        if may_lack and of_hub.keys().isdisjoint(names):
            return None
        return _frame(of_hub[_name_among(names, key, of_hub, train)])

    return Split(f"{train} at {revision}: {names[0]}", frame)


def _name_among(names: Sequence[str], key: str, splits: Mapping[str, Any], where: str) -> str:
    for name in names:
        if name in splits:
            return name
    raise SubtuneError(
        f"{key}: found no {names[0]!r} in {where}, expected one of its splits ({listed(splits)}), "
        'as in dev="test", or a share of the training rows, as in dev=0.2'
    )


@functools.cache
def _downloaded(reference: str, revision: str | None, results: Path) -> Mapping[str, Any]:
    match = ON_HUB.fullmatch(reference)
    assert match
    repository, subset = match["repository"], match["subset"]
    kept = Path(Layout(str(results)).pinned())
    commit = pinned(repository, revision, "dataset", kept, f"train: no file {reference!r} here")
    import datasets

    advice = "a subset is named after a colon, as in nyu-mll/glue:cola"
    with one_line(f"train: cannot read {reference} from the hub ({advice})"):
        return datasets.load_dataset(repository, subset, revision=commit)


def _split(key: str, rows: Any, how: Mapping[str, str]) -> Split:
    if isinstance(rows, str | Path):
        path = Path(rows)
        if not is_file(path):
            share = ", or a share of the training rows such as 0.2" if key == "dev" else ""
            raise SubtuneError(f"{key}: found no file {cut(str(rows))!r}, expected one{share}")
        # Rows in an encoding of their own are written anew, in UTF-8.
        own = None if "encoding" in how else path
        return Split(fingerprint(path), lambda results: _read(path, how), own)
    if not hasattr(rows, "columns") and not hasattr(rows, "features"):
        raise SubtuneError(
            f"{key}: found {type(rows).__name__}, expected a path, a pandas DataFrame, a Dataset, "
            "the name of a dataset on the hub, or for dev a share of the training rows such as 0.2"
        )
    return Split(id_of(_json_lines(_frame(rows))), lambda results: _frame(rows))


def _divided(train: Split, share: float) -> dict[str, Split]:
    """Return a split to train on and one to evaluate on, drawn from the same rows."""
    if not 0 < share < 1:
        raise SubtuneError(f"dev: found {share}, expected a share between 0 and 1, such as 0.2")

    def part(begins: float, ends: float) -> Callable[[Path], "pd.DataFrame"]:
        def frame(results: Path) -> "pd.DataFrame":
            rows = train.frame(results)
            assert rows is not None
            rows = rows.sample(frac=1, random_state=0)
            return rows.iloc[round(begins * len(rows)) : round(ends * len(rows))]

        return frame

    return {
        "train": Split(f"{train.identity} without {share}", part(share, 1)),
        "validation": Split(f"{share} of {train.identity}", part(0, share)),
    }


def _read(path: Path, how: Mapping[str, str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame([row for _, row in tables.read(path, **how).rows])


def _frame(rows: Any) -> "pd.DataFrame":
    """Return rows as a table, in which classes have their names."""
    if not hasattr(rows, "features"):
        return rows
    frame = rows.to_pandas()
    for column, feature in rows.features.items():
        # Any number of classes are a list of them.
        is_list, of_class = hasattr(feature, "feature"), getattr(feature, "feature", feature)
        if names := getattr(of_class, "names", None):
            word = dict(enumerate(names)).get
            frame[column] = [[*map(word, n)] if is_list else word(n) for n in frame[column]]
    return frame


def _json_lines(frame: "pd.DataFrame") -> str:
    with one_line("the table cannot be written as JSON lines"):
        # A gap among whole numbers has made them decimals.
        frame = frame.apply(lambda cells: cells.convert_dtypes() if cells.hasnans else cells)
        return frame.to_json(orient="records", lines=True, force_ascii=False, date_format="iso")
