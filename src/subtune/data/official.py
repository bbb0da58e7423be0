"""Tasks outside GLUE in their official files: where these lie in a directory, and their rows."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from subtune.core.errors import SubtuneError
from subtune.data.files import columns_from_files
from subtune.tasks import TaskSpec
from subtune.tasks.formats import treebank
from subtune.tasks.formats.paths import is_directory, is_file
from subtune.tasks.task_kind import PlacedRow


class Release(NamedTuple):
    """The layout in which a task is published.

    ``paths`` finds the files of every split in a directory, of which test files may be absent;
    ``rows`` reads one of them, where the task's kind does not.
    """

    paths: Callable[[Path], Mapping[str, Sequence[Path]]]
    rows: Callable[[TaskSpec, Path, bool], Iterator[PlacedRow]] | None = None


def _by_name(**names: str) -> Callable[[Path], dict[str, list[Path]]]:
    """Finds files of these names, by split."""

    def paths(directory: Path) -> dict[str, list[Path]]:
        if not is_directory(directory):
            expected = ", ".join(names.values())
            raise SubtuneError(
                f"found no directory {str(directory)!r}, expected one with {expected}"
            )
        by_split = {split: directory / name for split, name in names.items()}
        for split, path in by_split.items():
            if split != "test" and not is_file(path):
                raise SubtuneError(f"{path} is missing, expected the {split} file")
        return {split: [path] for split, path in by_split.items() if is_file(path)}

    return paths


def _sentences(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    return treebank.sentences(path, (*task.text, *((task.label,) if labelled else ())))


RELEASES = {
    "ptb": Release(treebank.paths, _sentences),
    "ud_ewt": Release(
        _by_name(
            train="en_ewt-ud-train.conllu",
            validation="en_ewt-ud-dev.conllu",
            test="en_ewt-ud-test.conllu",
        )
    ),
    "squad": Release(_by_name(train="train-v1.1.json", validation="dev-v1.1.json")),
}


def paths(directory: str, task: TaskSpec, splits: Collection[str]) -> dict[str, tuple[Path, ...]]:
    """The files of some of a task's splits, as far as it has them.

    Raises:
        SubtuneError: the directory, or a file with labels, is not there.
    """
    try:
        by_split = RELEASES[task.name].paths(Path(directory))
    except SubtuneError as error:
        raise SubtuneError(f"directories.{task.name}: {error}") from None
    return {split: tuple(by_split[split]) for split in splits if split in by_split}


def columns_of(task: TaskSpec, paths: Mapping[str, Sequence[Path]]) -> dict[str, dict[str, list]]:
    """The columns of each split's files, as the task's kind has them.

    Raises:
        SubtuneError: a file cannot be read, a row is not one of the task, or the rows cannot be
            learnt from or judged by.
    """
    return columns_from_files(task, paths, RELEASES[task.name].rows or task.of_kind.read)
