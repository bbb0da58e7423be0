"""The files that hold the rows of a task, and a hash of their content."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from subtune.core.content_ids import fingerprint
from subtune.core.errors import SubtuneError
from subtune.data import files, official, tsv
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS

# An error message names each of at most so many files.
NAMED_FILES = 3


def version_of(paths: Mapping[str, Sequence[Path]]) -> str:
    """Content hash of the files of some splits.

    Raises:
        SubtuneError: a file cannot be read.
    """
    files = [path for split in sorted(paths) for path in paths[split]]
    try:
        return fingerprint(*files)
    except OSError as error:
        name, reason = error.filename or _named(files), error.strerror or "cannot be read"
        raise SubtuneError(f"{name}: {reason.lower()}, expected a file to read") from None


def paths_of(
    spec: DataSpec,
    glue_dir: str | None = None,
    paths: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> dict[str, tuple[Path, ...]]:
    """The files of a value's splits; none where the rows are not in files of the user.

    Args:
        spec: which rows.
        glue_dir: where the ``tsv`` source reads.
        paths: split to path, for the ``files`` source.
        directory: where the task's official files lie, for the ``files`` source without paths.

    Raises:
        SubtuneError: a file is not there.
    """
    if spec.source == "tsv":
        of_task = tsv.paths(Path(str(glue_dir)), TASKS[spec.task.name])
        return {split: (of_task[split],) for split in spec.splits if split in of_task}
    if directory:
        return official.paths(directory, spec.task, spec.splits)
    if spec.source == "files":
        return {split: (files.path_of(paths or {}, spec.task, split),) for split in spec.splits}
    return {}


def require_version(spec: DataSpec, paths: Mapping[str, Sequence[Path]]) -> None:
    """Refuse rows whose files are no longer those that the value was made of.

    It is asked after they were read, so that what was read is what the value says.

    Raises:
        SubtuneError: a file has another content, or is gone.
    """
    try:
        same = not paths or version_of(paths) == spec.version
    except SubtuneError:
        same = False
    if not same:
        names = _named([path for files in paths.values() for path in files])
        raise SubtuneError(f"{names}: changed since this was planned; call snakemake again")


def _named(paths: Sequence[Path]) -> str:
    if len(paths) <= NAMED_FILES:
        return ", ".join(map(str, paths))
    return f"{paths[0]} or one of {len(paths) - 1:,} others"
