"""Which files hold the rows of a task, and a hash of what is in them."""

from collections.abc import Mapping
from pathlib import Path

from subtune.data import files, tsv
from subtune.errors import SubtuneError
from subtune.specs import DataSpec
from subtune.tasks import TASKS
from subtune.values import fingerprint


def version_of(paths: Mapping[str, Path]) -> str:
    """Content hash of the files of some splits."""
    return fingerprint(*(paths[split] for split in sorted(paths)))


def paths_of(
    spec: DataSpec, glue_dir: str | None = None, paths: Mapping[str, str] | None = None
) -> dict[str, Path]:
    """The files of a value's splits; none where the rows are not in files of the user.

    Args:
        spec: which rows.
        glue_dir: where the ``tsv`` source reads.
        paths: split to path, for the ``files`` source.

    Raises:
        SubtuneError: a file is not there.
    """
    if spec.source == "tsv":
        of_task = tsv.paths(Path(str(glue_dir)), TASKS[spec.task.name])
        return {split: of_task[split] for split in spec.splits if split in of_task}
    if spec.source == "files":
        return {split: files.path_of(paths or {}, spec.task, split) for split in spec.splits}
    return {}


def require_version(spec: DataSpec, paths: Mapping[str, Path]) -> None:
    """Refuse rows whose files are no longer those that the value was made of.

    It is asked after they were read, so that what was read is what the value says.

    Raises:
        SubtuneError: a file has another content, or is gone.
    """
    try:
        same = not paths or version_of(paths) == spec.version
    except OSError:
        same = False
    if not same:
        names = ", ".join(map(str, paths.values()))
        raise SubtuneError(f"{names}: changed since this was planned; call snakemake again")
