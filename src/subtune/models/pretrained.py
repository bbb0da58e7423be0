"""The weights in a packed family's files: their names there, and checks that none is missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from safetensors import safe_open

from subtune.core.errors import SubtuneError, one_line
from subtune.families.base import Dimensions, Family

# The first published BERT files have these names.
EARLIER_NAMES = {".gamma": ".weight", ".beta": ".bias"}
FLOATS = ("F64", "F32", "F16", "BF16")


class Stored(NamedTuple):
    """A tensor in a file: its name there, its shape and its type."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: str


def stored_names(paths: Sequence[Path], dimensions: Dimensions) -> dict[str, Stored]:
    """Return canonical name to stored tensor of every pretrained parameter.

    Only the files' headers are read. Other tensors outside the encoder's layers, such as another
    head's, do not matter.

    Args:
        paths: of files in safetensors.
        dimensions: of the model, by its configuration.

    Raises:
        SubtuneError: a file cannot be read, lacks a parameter, has one of another shape or type, or
            has more layers than the model.
    """
    family = dimensions.family
    path = paths[0]
    tensors = [stored for path in paths for stored in header(path)]
    names = {_canonical(stored.name, family): stored for stored in tensors}
    shapes = family.shapes(dimensions)
    model = f"which a {family.model_type} of {dimensions.num_hidden_layers} layers has"
    missing = [name for name in shapes if name not in names]
    if missing:
        elsewhere = [stored.name for stored in tensors if stored.name.endswith(f".{missing[0]}")]
        hint = f"; found {elsewhere[0]!r}, which has another prefix" if elsewhere else ""
        raise SubtuneError(f"{path} has no {_listed(missing)}, {model}{hint}")
    unknown = [name for name in names if name.startswith(family.layers) and name not in shapes]
    if unknown:
        raise SubtuneError(f"{path} has {_listed(unknown)}, {model} not")
    for name, shape in shapes.items():
        stored = names[name]
        if stored.shape != shape:
            raise SubtuneError(
                f"{stored.path}: {name} has the shape {list(stored.shape)}, expected {list(shape)} "
                "as the model's configuration says"
            )
        require_floats(stored, name)
    return {name: names[name] for name in shapes}


def require_floats(stored: Stored, name: str) -> None:
    """Refuse a tensor that is not stored as floating-point numbers."""
    if stored.dtype not in FLOATS:
        raise SubtuneError(
            f"{stored.path}: {name} is stored as {stored.dtype}, expected one of "
            f"{', '.join(FLOATS)}"
        )


def header(path: Path) -> list[Stored]:
    """Return every tensor in a file.

    Raises:
        SubtuneError: the file cannot be read.
    """
    expected = "expected safetensors, from their beginning to their end"
    with one_line(f"{path} cannot be read, {expected}"), safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return [
            Stored(path, name, tuple(part.get_shape()), part.get_dtype())
            for name, part in slices.items()
        ]


def _canonical(stored: str, family: Family) -> str:
    name = stored.removeprefix(f"{family.backbone}.")
    for earlier, now in EARLIER_NAMES.items():
        if name.endswith(earlier):
            return name.removesuffix(earlier) + now
    return name


def _listed(names: Sequence[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")
