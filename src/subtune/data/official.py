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
    names = NAMES.get(task.name, {})
    expected = ", ".join(names.values()) or "the Penn Treebank's sections"
    by_split = present(key, directory, f"one with {expected}", names, may_lack=("test",))
    if not names:
        return treebank.paths(Path(directory), key)
    return {split: (path,) for split, path in by_split.items()}
