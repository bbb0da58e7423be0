"""Import the user's own code: files, modules and entry points of installed packages."""

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from subtune.core.errors import SubtuneError, error_reason, format_allowed
from subtune.core.files import hash_bytes

# A function in a file, such as ``my_rules.py:gem``, or in a module, such as ``package.module:gem``.
OWN_FUNCTION = re.compile(r"(?P<place>.+):(?P<function>[^\W\d]\w*)")


# The files and modules that are being imported now.
_imported_now: list[str] = []


def import_own_function(place: str) -> Callable[..., Any]:
    """Import a function by its place, which matches `OWN_FUNCTION`.

    Raises:
        SubtuneError: there is no such function, or its code cannot be imported.
    """
    [function] = import_own_functions([place])
    return function


def import_own_functions(places: Sequence[str]) -> list[Callable[..., Any]]:
    """Import functions or classes, as `import_own_function` does, and each file only once."""
    modules, found = dict[str, ModuleType](), []
    for place in places:
        where, _, name = place.rpartition(":")
        if where not in modules:
            modules[where] = import_user_code(where)
        function = getattr(modules[where], name, None)
        if not callable(function):
            values = vars(modules[where]).items()
            known = [n for n, value in values if callable(value) and n[0] != "_"]
            raise SubtuneError(f"{where}: {format_allowed(name, known)}")
        found.append(function)
    return found


def list_code_files(place: str) -> list[Path]:
    """List the files with the code of a function, without importing it. Its own file comes first.

    A file stands alone; of a package, every file counts. A `SubtuneError` is raised if there is no
    such file or module.
    """
    where = place.rpartition(":")[0]
    path = Path(where)
    if path.suffix == ".py":
        if not path.is_file():
            raise SubtuneError(f"cannot import {where}: no such file in {Path.cwd()}")
        return [path.resolve()]
    folders, own = [path], path / "__init__.py"
    if not path.is_dir():
        try:
            top, found = find_spec(where.partition(".")[0]), find_spec(where)
        except (ImportError, ValueError):
            top = found = None
        if not top or not found or not found.origin:
            raise SubtuneError(f"cannot import {where}: no such file or module")
        folders, own = [*map(Path, top.submodule_search_locations or ())], Path(found.origin)
    others = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [own, *(other for other in others if other != own)]


def list_package_folders(files: Sequence[Path]) -> set[Path]:
    """List the folders of the package to which ``files`` of `list_code_files` belong, if any.

    The modification time of a folder changes if a file is added to it.
    """
    if len(files) == 1 and files[0].name != "__init__.py":
        return set()
    parents = {path.parent for path in files}
    tops = [folder for folder in parents if parents.isdisjoint(folder.parents)]
    below = (folder for top in tops for folder in top.rglob("*/"))
    return parents | {folder for folder in below if folder.name != "__pycache__"}


def hash_own_code(names: Iterable[str]) -> str | None:
    """Return a hash of the code of those ``names`` that are places of functions; None without any.

    The code is not imported. A `SubtuneError` is raised if there is no such file or module.
    """
    own = [*filter(OWN_FUNCTION.fullmatch, names)]
    files = (path for place in own for path in list_code_files(place))
    return hash_bytes(b"".join(path.read_bytes() for path in files)) if own else None


def require_planned_code(places: Sequence[str], planned: str | None) -> None:
    """Raise a `SubtuneError` if the code of functions differs from the hash ``planned``, if any.

    Names that are no places of functions are left out.
    """
    if planned and hash_own_code(places) != planned:
        own = [*filter(OWN_FUNCTION.fullmatch, places)]
        raise SubtuneError(
            f"{' or '.join(own)} has changed since the run was planned; restore it, or train again"
        )


def import_user_code(place: str) -> ModuleType:
    """Import a file, the folder of a package, or an installed module such as ``package.module``.

    A file cannot import the files next to it, because a change there would go unnoticed.

    Raises:
        SubtuneError: there is no such file or module, or its code raises an error.
    """
    path = Path(place)
    path = path / "__init__.py" if path.is_dir() else path
    _imported_now.append(place)
    try:
        # What the user's code prints does not belong to the output of a command.
        with redirect_stdout(sys.stderr):
            if path.suffix != ".py":
                return importlib.import_module(place)
            if not path.is_file():
                raise SubtuneError("no such file")
            return _import_file(path.resolve())
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        reason = describe_user_error(error, path)
        raise SubtuneError(f"cannot import {place}: {reason}") from error
    finally:
        _imported_now.pop()


def require_no_import(function: str) -> None:
    """Raise a `SubtuneError` if the user's code calls a function of subtune when it is imported.

    A script with an estimator of its own is imported, and would start itself again.
    """
    if _imported_now:
        raise SubtuneError(
            f"it calls {function} when it is imported; put the call under "
            '`if __name__ == "__main__":`'
        )


def _import_file(path: Path) -> ModuleType:
    folder = path.parent if path.stem == "__init__" else None
    # The name consists of the path, which messages about claims show.
    name = ".".join((folder or path.with_suffix("")).parts[1:])
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(folder)] if folder else None
    )
    assert spec
    # The modules of a package, and dataclasses, look up their module by its name.
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    # A loader would write bytecode next to the user's file.
    exec(compile(path.read_bytes(), path, "exec"), vars(module))
    return module


@contextmanager
def locate_user_errors(place: str, described: str = "", file: Path | None = None) -> Iterator[None]:
    """Convert any exception of the code at ``place`` to a `SubtuneError` that begins with it.

    ``described`` follows the place. ``file`` has the code, if ``place`` does not name its file.
    """
    own = Path(place.rpartition(":")[0]) if OWN_FUNCTION.fullmatch(place) else file
    try:
        yield
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise SubtuneError(f"{place}{described}: {describe_user_error(error, own)}") from error


def describe_user_error(error: BaseException, file: Path | None) -> str:
    """Describe an exception of the user's code, with the line of the user's ``file``, if known.

    For the ``__init__.py`` of a package, the line may be in another file of the package.
    """
    if isinstance(error, SubtuneError):
        return str(error)
    own, line = file.resolve() if file else None, ""
    own = own / "__init__.py" if own and own.is_dir() else own
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename).resolve()
        if path == own:
            line = f"line {frame.lineno}: "
        elif own and own.name == "__init__.py" and path.is_relative_to(own.parent):
            line = f"{path.relative_to(own.parent)}, line {frame.lineno}: "
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        # Its text names the file and the line.
        line = ""
    # `error_reason` says that a key is a name of the configuration.
    reason: object = error
    if isinstance(error, Exception) and not isinstance(error, KeyError):
        reason = error_reason(error)
    if isinstance(error, ModuleNotFoundError) and _is_neighbour(error.name, file):
        reason = f"{reason}; a file cannot import the files next to it"
    return f"{line}{type(error).__name__}: {reason}"


def _is_neighbour(module: str | None, file: Path | None) -> bool:
    if not file or file.suffix != ".py" or file.name == "__init__.py":
        return False
    first = str(module).partition(".")[0]
    # A relative import begins with the name of the file's folders.
    if first == file.resolve().parts[1]:
        return True
    path = file.parent / first
    return path.is_dir() or path.with_suffix(".py").is_file()


def find_entry_points(group: str, built_in: Collection[str]) -> dict[str, str]:
    """Map the names of a group of entry points of installed packages to their values.

    A `SubtuneError` is raised if a name is also the name of something built in.
    """
    found = {point.name: point for point in entry_points(group=group)}
    for name in found.keys() & {*built_in}:
        package = found[name].dist
        raise SubtuneError(
            f"the package {package.name if package else 'unknown'} has the entry point {name!r} in "
            f"{group}, which is a built-in name; rename the entry point or uninstall the package"
        )
    return {name: point.value for name, point in found.items()}
