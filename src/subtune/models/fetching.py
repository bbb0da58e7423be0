"""Copying a model's files to the place from which jobs read them."""

import shutil
from pathlib import Path

from transformers import AutoTokenizer

from subtune.core.errors import SubtuneError, one_line
from subtune.hub import snapshot
from subtune.models import files
from subtune.models.configuration import CONFIG, MODULES, POOLING
from subtune.selections.specs import ModelSpec


def fetch(spec: ModelSpec, name_or_path: str, target: Path) -> None:
    """Put a model's files into ``target``: downloaded, or copied from a local directory.

    Args:
        spec: the model, with its revision on the hub.
        name_or_path: the hub's repository id, or the local directory.
        target: a new directory.

    Raises:
        SubtuneError: the hub cannot be reached, the files are not a usable model, or a local
            directory changed after it was planned.
    """
    source = Path(name_or_path)
    if spec.source == "hub":
        weights = [files.WEIGHTS, files.INDEX, files.SHARDS]
        others = [files.README, MODULES, POOLING]
        source = snapshot(
            name_or_path,
            spec.version,
            [CONFIG, *weights, files.TOKENIZER, *files.OTHER_TOKENIZER_FILES, *others],
            repo_type="model",
            name=f"could not download model {name_or_path}",
            instead="name a local `path`",
        )
    target.mkdir(parents=True, exist_ok=True)
    for path in files.files_of(source):
        shutil.copyfile(path, target / path.name)
    # These files decide no result: the card, and those that say the pooling, a part of the spec.
    beside = [source / files.README]
    if spec.pooling:
        beside += [source / MODULES, *source.glob(POOLING)]
    for path in filter(Path.is_file, beside):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    if spec.source == "files" and files.version_of(target) != spec.version:
        raise SubtuneError(f"{source}: changed since this was planned; call snakemake again")
    tokenizer = target / files.TOKENIZER
    if not tokenizer.is_file():
        vocabulary = " and ".join(name for name in files.VOCABULARIES if (target / name).is_file())
        with one_line(f"{target} has no {tokenizer.name}, and none can be made of {vocabulary}"):
            # Transformers makes it of an older tokenizer's files.
            made = AutoTokenizer.from_pretrained(
                target, local_files_only=True, trust_remote_code=False
            )
            made.backend_tokenizer.save(str(tokenizer))
