"""Files and directories, for a user who may not look everywhere."""

from pathlib import Path


def is_file(path: Path) -> bool:
    """Return whether a file is there; False if the system refuses its name or access."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """Return whether a directory is there; False if the system refuses its name or access."""
    try:
        return path.is_dir()
    except OSError:
        return False
