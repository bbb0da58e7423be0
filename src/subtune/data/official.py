"""Official files of tasks outside GLUE: where they lie in a directory."""

from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.tasks import TaskSpec
from subtune.tasks.formats import treebank
from subtune.tasks.formats.paths import is_directory, is_file

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


def paths(directory: str, task: TaskSpec) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split of a task.

    Raises:
        SubtuneError: the directory, or a file with labels, is not there.
    """
    key, folder = f"directories.{task.name}", Path(directory)
    names = NAMES.get(task.name, {})
    if not is_directory(folder):
        expected = ", ".join(names.values()) or "the Penn Treebank's sections"
        raise SubtuneError(f"{key}: found no directory {directory!r}, expected one with {expected}")
    if not names:
        return treebank.paths(folder, key)
    by_split = {split: (folder / name,) for split, name in names.items()}
    for split, (path,) in by_split.items():
        if split != "test" and not is_file(path):
            raise SubtuneError(f"{key}: {path} is missing, expected the {split} file")
    return {split: (path,) for split, (path,) in by_split.items() if is_file(path)}
