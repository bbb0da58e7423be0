"""The weights in a model's files: their names there, and checks that they fit the configuration."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from safetensors import safe_open

from subtune.core.errors import SubtuneError, one_line
from subtune.families.base import Dimensions, Shape


def stored_names(paths: Sequence[Path], dimensions: Dimensions) -> dict[str, str]:
    """Return canonical name to stored name of every parameter in files of a packed family.

    Only the files' headers are read. Other tensors outside the encoder's layers, such as another
    head's, do not matter.

    Args:
        paths: of files in safetensors, in one directory.
        dimensions: of the model, by its configuration.

    Raises:
        SubtuneError: a file cannot be read, lacks a parameter, has one of another shape, or has
            more layers than the model.
    """
    family = dimensions.family
    stored = {name: shape for path in paths for name, shape in shapes_in(path).items()}
    names = {_canonical(name, family.backbone): name for name in stored}
    shapes = family.shapes(dimensions)
    require_same(
        paths[0].parent,
        stored=stored,
        missing=[name for name in shapes if name not in names],
        mismatched=((n, stored[names[n]], s) for n, s in shapes.items() if stored[names[n]] != s),
        unknown=[n for n in names if n.startswith(family.layers) and n not in shapes],
    )
    return names


def require_same(
    directory: Path,
    stored: Iterable[str],
    missing: Sequence[str],
    mismatched: Iterable[tuple[str, Shape, Shape]],
    unknown: Sequence[str],
    prefix: str = "",
) -> None:
    """Refuse weights that are not those of the configuration.

    Args:
        directory: of the model's files.
        stored: names in the files.
        missing: names of parameters that the files lack.
        mismatched: names of parameters with their stored and expected shapes.
        unknown: stored names that only a larger model of this kind has.
        prefix: of names of pretrained parameters, in which the files may differ.
    """
    if missing:
        behind = f".{missing[0].removeprefix(prefix)}"
        other = next((name for name in stored if name.endswith(behind)), None)
        hint = f"; found {other!r}, which has another prefix" if other else ""
        raise SubtuneError(f"{directory} has no weights {missing[0]!r}, which its model has{hint}")
    for name, shape, expected in mismatched:
        raise SubtuneError(
            f"{directory}: {name} has the shape {list(shape)}, expected {list(expected)} as the "
            "model's configuration says"
        )
    if unknown:
        raise SubtuneError(
            f"{directory} has weights {unknown[0]!r}, which a model of its configuration has not"
        )


def shapes_in(path: Path) -> dict[str, Shape]:
    """Return the name and shape of every tensor in a file.

    Raises:
        SubtuneError: the file cannot be read.
    """
    expected = "expected safetensors, from their beginning to their end"
    with one_line(f"{path} cannot be read, {expected}"), safe_open(path, framework="numpy") as file:
        return {n: tuple(file.get_slice(n).get_shape()) for n in file.keys()}  # noqa: SIM118


def _canonical(stored: str, backbone: str) -> str:
    # The first published BERT files have the names gamma and beta.
    name = stored.removeprefix(f"{backbone}.")
    return name.replace(".gamma", ".weight").replace(".beta", ".bias")
