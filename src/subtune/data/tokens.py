"""Token ids of a task's rows, made once per model and task and kept as Arrow."""

from pathlib import Path

import datasets
from tokenizers import Tokenizer

from subtune.errors import SubtuneError
from subtune.models.families import family_of
from subtune.models.files import TOKENIZER, longest_text, read_config


def tokenize(
    rows: datasets.DatasetDict, model_directory: Path, max_length: int
) -> datasets.DatasetDict:
    """Tokenise single sentences or pairs, the longer cut first to ``max_length``, unpadded.

    Returns:
        The same splits with ``idx``, ``input_ids``, ``label`` and, where the model distinguishes
        the two sentences, ``token_type_ids``.

    Raises:
        SubtuneError: the tokenizer's file cannot be read, or the model has fewer positions.
    """
    config = read_config(model_directory)
    if max_length > longest_text(config):
        raise SubtuneError(
            f"max_length: found {max_length}, expected at most {longest_text(config)}, the "
            "positions of the model"
        )
    path = model_directory / TOKENIZER
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust library raises nothing narrower
        raise SubtuneError(f"{path} is not a readable tokenizer: {error}") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    with_token_types = family_of(config["model_type"]).has_token_types(config)

    def encode(batch: dict[str, list]) -> dict[str, list]:
        texts = batch["text_a"]
        pairs = list(zip(texts, batch["text_b"], strict=True)) if "text_b" in batch else texts
        encodings = tokenizer.encode_batch(pairs)
        columns = {"input_ids": [encoding.ids for encoding in encodings]}
        if with_token_types:
            columns["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        return columns

    if not rows:  # of a task whose test files are absent
        return rows
    columns = next(iter(rows.values())).column_names
    texts = [name for name in ("text_a", "text_b") if name in columns]
    return rows.map(encode, batched=True, remove_columns=texts, desc="tokens")
