"""Token ids of a task's rows, made once per model and task and kept as Arrow."""

from pathlib import Path

import datasets
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, one_line
from subtune.models.configuration import has_token_types, longest_text, read_config
from subtune.models.files import TOKENIZER
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import texts_apart


def tokenize(
    task: TaskSpec,
    rows: datasets.DatasetDict,
    model_directory: Path,
    max_length: int,
    doc_stride: int | None = None,
    apart: bool = False,
) -> datasets.DatasetDict:
    """Return every split's examples, unpadded, as `subtune.tasks.examples.Examples` reads them.

    An example has at most ``max_length`` tokens. Where examples of a row overlap, each begins
    ``doc_stride`` tokens after the one before. If the texts of a pair stand ``apart``, each is an
    example of its own.

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

    def encode(batch: dict[str, list], numbers: list[int]) -> dict[str, list]:
        if apart:
            batch = texts_apart(batch)
        encoded = task.of_kind.encode(tokenizer, batch, max_length, doc_stride)
        if apart:
            encoded["row"] = [number for number in numbers for _ in task.text]
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
    settings = {"batched": True, "with_indices": True, "remove_columns": columns}
    return rows.map(encode, **settings, desc="tokens")


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
