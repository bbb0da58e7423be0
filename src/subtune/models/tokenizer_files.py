"""A tokenizer in one file, made of the files that older models have."""

from pathlib import Path

from transformers import AutoTokenizer

from subtune.errors import SubtuneError


def convert(directory: Path, name: str) -> None:
    """Write the file ``name`` into a directory with a vocabulary.

    Raises:
        SubtuneError: transformers cannot make one of what is there.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        tokenizer.backend_tokenizer.save(str(directory / name))
    except Exception as error:  # what transformers raises here is of many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SubtuneError(
            f"{directory} has no {name}, and none can be made of its other files: {reason}"
        ) from None
