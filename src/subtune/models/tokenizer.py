"""A model's tokenizer, its files, and the share of tokens that it does not know."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import Unigram

from subtune.core.errors import SubtuneError, cut, one_line

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
MOST_UNKNOWN = 0.2
# The number of letters of each text on which a tokenizer is tried.
LETTERS = 1000
# A token that marks the beginning of a word. Before an unknown word it stands alone.
MARK = "▁"


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
    given = [text[:LETTERS] for text in texts if text.strip()]
    with one_line(f"{model}: the tokenizer fails on the texts"):
        encoded = tokenizer.encode_batch_fast(given, add_special_tokens=False)
    counts = Counter[int | None](chain.from_iterable(encoding.ids for encoding in encoded))
    counts.pop(tokenizer.token_to_id(MARK), None)
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
    if share > MOST_UNKNOWN:
        yield (
            f"{share:.0%} of the tokens are unknown to the model, so scores say little about "
            "methods: another model may know the language of these texts"
        )
