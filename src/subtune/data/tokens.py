"""Token ids of a task's rows, made once per model and task and kept as Arrow."""

from pathlib import Path

import datasets
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, one_line
from subtune.models.configuration import has_token_types, longest_text, read_config
from subtune.models.files import TOKENIZER
from subtune.tasks import TaskSpec


def tokenize(
    task: TaskSpec,
    rows: datasets.DatasetDict,
    model_directory: Path,
    max_length: int,
    doc_stride: int | None = None,
) -> datasets.DatasetDict:
    """Return every split's examples, unpadded, as `subtune.tasks.examples.Examples` reads them.

    An example has at most ``max_length`` tokens. Where examples of a row overlap, each begins
    ``doc_stride`` tokens after the one before.

    Raises:
        SubtuneError: the tokenizer's file cannot be read, or has words that the model has not, or
            the model has fewer positions.
    """
    config = read_config(model_directory)
    if max_length > longest_text(config):
        raise SubtuneError(
            f"max_length: found {max_length}, expected at most {longest_text(config)}, the "
            "positions of the model"
        )
    tokenizer = read_tokenizer(model_directory)

    def encode(batch: dict[str, list]) -> dict[str, list]:
        encoded = task.of_kind.encode(tokenizer, batch, max_length, doc_stride)
        if not has_token_types(config):
            del encoded["token_type_ids"]
        largest = max((max(ids, default=0) for ids in encoded["input_ids"]), default=0)
        words = config.get("vocab_size") or largest + 1
        if largest >= words:
            raise SubtuneError(
                f"{model_directory / TOKENIZER}: found a word of number {largest}, expected "
                f"numbers below {words}, the vocab_size of the model"
            )
        return encoded

    if not rows:  # of a task whose test files are absent
        return rows
    columns = next(iter(rows.values())).column_names
    return rows.map(encode, batched=True, remove_columns=columns, desc="tokens")


def read_tokenizer(model_directory: Path) -> Tokenizer:
    """Return a model's tokenizer, which neither pads nor cuts.

    Raises:
        SubtuneError: its file cannot be read.
    """
    path = model_directory / TOKENIZER
    with one_line(f"{path} is not a readable tokenizer"):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
