"""A model's files in the results: downloaded, or copied from a local directory."""

import shutil
from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.hub import snapshot
from subtune.models.files import (
    CONFIG,
    INDEX,
    MODULES,
    OTHER_TOKENIZER_FILES,
    POOLING,
    README,
    SHARDS,
    TOKENIZER,
    WEIGHTS,
    files_of,
    version_of,
)
from subtune.models.tokenizer import read_tokenizer
from subtune.runs.spec import ModelSpec


def fetch(spec: ModelSpec, name_or_path: str, target: Path) -> None:
    """Put a model's files into ``target``: downloaded, or copied from a local directory.

    Raises:
        SubtuneError: the hub cannot be reached, the files are not a usable model, or a local
            directory changed after it was planned.
    """
    source = Path(name_or_path)
    if spec.source == "hub":
        weights, others = (WEIGHTS, INDEX, SHARDS), (README, MODULES, POOLING)
        source = snapshot(
            name_or_path,
            spec.version,
            [CONFIG, *weights, TOKENIZER, *OTHER_TOKENIZER_FILES, *others],
            repo_type="model",
            name=f"could not download model {name_or_path}",
            instead="name a local `path`",
        )
    # The version covers neither the model card nor the pooling. The spec has the pooling.
    beside = [source / README]
    if spec.pooling:
        beside += [source / MODULES, *source.glob(POOLING)]
    for path in [*files_of(source), *filter(Path.is_file, beside)]:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if spec.source == "files" and version_of(target) != spec.version:
        raise SubtuneError(f"{source}: changed since this was planned; call snakemake again")
    if not (target / TOKENIZER).is_file():
        read_tokenizer(target).save(str(target / TOKENIZER))
