"""A tokenizer in one file, made of the files that older models have."""

from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer

from subtune.errors import SubtuneError, reason_of


def convert(directory: Path, name: str, vocabulary: Sequence[str]) -> None:
    """Write the file ``name`` into a directory with the files of a vocabulary.

    Raises:
        SubtuneError: transformers cannot make one of what is there.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        tokenizer.backend_tokenizer.save(str(directory / name))
    except Exception as error:  # what transformers raises here is of many kinds
        # Tiktoken is what transformers tries last, whatever the files are.
        reason = "" if "tiktoken" in str(error) else f": {reason_of(error)}"
        raise SubtuneError(
            f"{directory} has no {name}, and none can be made of {' and '.join(vocabulary)}{reason}"
        ) from None
