"""Official files of tasks outside GLUE: where they lie in a directory."""

from pathlib import Path

from subtune.tasks import TaskSpec
from subtune.tasks.formats import treebank
from subtune.tasks.formats.paths import present

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
    key = f"directories.{task.name}"
    if task.name not in NAMES:
        return treebank.paths(Path(directory), key)
    names = NAMES[task.name]
    expected = f"one with {', '.join(names.values())}"
    by_split = present(key, directory, expected, names, may_lack=("test",))
    return {split: (path,) for split, path in by_split.items()}
