"""What lies at a path, for a user who may not look everywhere."""

from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether a file is there; none is where the system takes no such name or shows nothing."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """Whether a directory is there, as `is_file` says it of files."""
    try:
        return path.is_dir()
    except OSError:
        return False
