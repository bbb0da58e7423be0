"""Token ids of a task's rows, made once per model and task and kept as Arrow."""

from pathlib import Path

import datasets
from transformers import AutoTokenizer


def tokenize(
    rows: datasets.DatasetDict, model_directory: Path, max_length: int
) -> datasets.DatasetDict:
    """Tokenise single sentences or pairs, cut at ``max_length`` tokens, unpadded.

    Returns:
        The same splits with ``idx``, ``input_ids``, ``label`` and, where the model distinguishes
        the two sentences, ``token_type_ids``.
    """
    tokenizer = AutoTokenizer.from_pretrained(model_directory, local_files_only=True)

    def encode(batch: dict[str, list]) -> dict[str, list]:
        encoded = tokenizer(
            batch["text_a"],
            batch.get("text_b"),
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
        )
        return dict(encoded)

    texts = [name for name in ("text_a", "text_b") if name in rows["train"].column_names]
    return rows.map(encode, batched=True, remove_columns=texts, desc="tokens")
