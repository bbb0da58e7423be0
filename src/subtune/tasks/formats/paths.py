"""Files and directories, for a user who may not look everywhere."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from subtune.core.errors import SubtuneError

# False if the system refuses a name or access, where pathlib may raise.
is_file = os.path.isfile
is_directory = os.path.isdir


def present(
    key: str, directory: str, expected: str, names: Mapping[str, str], may_lack: Collection[str]
) -> dict[str, Path]:
    """Return the file of each split, from its name in a directory.

    Splits in ``may_lack`` may have none. An error message begins with ``key``.

    Raises:
        SubtuneError: the directory, which has what is ``expected``, or a file is not there.
    """
    if not is_directory(directory):
        raise SubtuneError(f"{key}: found no directory {directory!r}, expected {expected}")
    paths = {split: Path(directory, name) for split, name in names.items()}
    for split, path in paths.items():
        if split not in may_lack and not is_file(path):
            raise SubtuneError(f"{key}: {path} is missing, expected the {split} file")
    return {split: path for split, path in paths.items() if is_file(path)}
