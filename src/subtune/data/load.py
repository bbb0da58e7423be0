"""Loading and tokenizing the data of all tasks, with the same columns from every source."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import datasets

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.hub import download_snapshot
from subtune.core.process import log_line
from subtune.data.sources import (
    OF_GLUE,
    REPOSITORIES,
    TRIED,
    Repository,
    make_columns,
    read_columns,
)
from subtune.data.subsets import find_sets
from subtune.models.model_config import (
    has_token_types,
    longest_text,
    needs_single_eos_token,
    read_model_config,
)
from subtune.models.model_files import TOKENIZER, read_tokenizer, unknown_lines, unknown_share
from subtune.runs.spec import DataSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import PLACE, SET
from subtune.tasks.sentences import TEXT_COLUMNS, separate_texts
from subtune.tasks.task_kind import Columns, pair_with_places


def load_rows(spec: DataSpec, paths: Mapping[str, Path] | None = None) -> datasets.DatasetDict:
    """Load a task's splits; ``paths`` maps each split to its file, and is None without files."""
    task = spec.task
    if spec.source == "hub":
        return _download_rows(task, spec.version, spec.splits)
    columns = read_columns(task, paths or {}, spec.source)
    splits = {
        split: build_dataset(task, columns[split]) for split in spec.splits if split in columns
    }
    return datasets.DatasetDict(splits)


def _download_rows(task: TaskSpec, revision: str, splits: Sequence[str]) -> datasets.DatasetDict:
    repository = REPOSITORIES.get(task.name, OF_GLUE)
    patterns = {split: repository.pattern(task.name, split) for split in splits}
    folder = download_snapshot(
        f"source: could not download {repository.name} at {revision}",
        repository.instead,
        repository.name,
        repo_type="dataset",
        revision=revision,
        allow_patterns=[*patterns.values()],
    )
    result = {}
    for split, pattern in patterns.items():
        parquet = sorted(str(path) for path in folder.glob(pattern))
        if not parquet:
            raise SubtuneError(
                f"source: {repository.name} at {revision} has no {pattern}; {repository.instead}"
            )
        result[split] = read_hub_split(
            task, repository, parquet, labelled=split in task.labelled_splits
        )
    return datasets.DatasetDict(result)


def read_hub_split(
    task: TaskSpec, repository: Repository, paths: Sequence[str], *, labelled: bool
) -> datasets.Dataset:
    """Read one split of a repository from its Parquet files."""
    rows = datasets.Dataset.from_parquet(list(paths))
    if repository.row is not None:
        placed = pair_with_places(map(repository.row, rows))
        columns = make_columns(task, placed, labelled=labelled, source=repository.name)
        return build_dataset(task, columns)
    # GLUE's labels on the hub are already numbers.
    new_names = dict(zip(task.text, ("text_a", "text_b"), strict=False))
    new_names |= dict.fromkeys(task.label_columns, "label")
    rows = rows.rename_columns({old: new for old, new in new_names.items() if old != new})
    columns = rows.select_columns(["idx", *task.of_kind.column_types(task)])[:]
    columns[PLACE] = [where for where, _ in pair_with_places(columns["idx"])]
    columns[SET] = find_sets(task.of_kind.texts(columns), repeat(None, len(rows)))
    return build_dataset(task, columns)


def build_dataset(task: TaskSpec, columns: Columns) -> datasets.Dataset:
    """Build the dataset of one split from its columns, which `make_columns` returns."""
    types = {"idx": "int32", PLACE: "string", **task.of_kind.column_types(task), SET: "int32"}
    features = {}
    for name, kind in types.items():
        is_list = isinstance(kind, list)
        features[name] = datasets.List(datasets.Value(*kind)) if is_list else datasets.Value(kind)
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def read_splits(directory: Path) -> datasets.DatasetDict:
    """Read the splits of a dataset that another job has written."""
    with convert_errors(f"{directory} is damaged; delete it, and run snakemake again"):
        return datasets.DatasetDict.load_from_disk(str(directory))


def read_examples(tokens: str, texts: str | None = None) -> datasets.DatasetDict:
    """Read tokenized examples and, for tasks with one example per row, texts from ``texts``."""
    examples = read_splits(Path(tokens))
    if texts is None:
        return examples
    joined = datasets.DatasetDict()
    for split, rows in read_splits(Path(texts)).items():
        columns = [name for name in TEXT_COLUMNS if name in rows.column_names]
        parts = [examples[split], rows.select_columns(columns)]
        joined[split] = datasets.concatenate_datasets(parts, axis=1)
    return joined


def tokenize(
    task: TaskSpec,
    rows: datasets.DatasetDict,
    model_directory: Path,
    max_length: int,
    doc_stride: int | None = None,
    apart: bool = False,
) -> datasets.DatasetDict:
    """Tokenize all splits, without padding, for `subtune.tasks.examples.Examples`.

    Args:
        max_length: the maximum number of tokens of an example.
        doc_stride: the number of tokens between the starts of overlapping examples; None if a row
            is not cut into overlapping examples.
        apart: if true, each text of a pair becomes a separate example.

    Raises:
        SubtuneError: the tokenizer cannot be read, knows none of the words, or has a larger
            vocabulary than the model, or the model has fewer than ``max_length`` positions.
    """
    longest = longest_text(read_model_config(model_directory))
    if max_length > longest:
        raise SubtuneError(
            f"max_length: found {max_length}, expected at most {longest}, the model's number of "
            "positions"
        )
    if not rows:  # Files of a test set may be absent.
        return rows
    first = next(iter(rows.values()))
    some = task.of_kind.texts(first.select(range(0, len(first), -(-len(first) // TRIED)))[:])
    tokenizer = read_tokenizer(model_directory)
    for line in unknown_lines(unknown_share(tokenizer, map(" ".join, some), model_directory)):
        log_line(line)
    encode = row_encoder(task, model_directory, max_length, doc_stride, apart)
    settings = {"batched": True, "with_indices": True, "remove_columns": first.column_names}
    return rows.map(encode, **settings, desc="tokens")


def row_encoder(
    task: TaskSpec,
    model_directory: Path,
    max_length: int,
    doc_stride: int | None = None,
    apart: bool = False,
) -> Callable[[Columns, Sequence[int]], dict[str, list]]:
    """Return a function that tokenizes rows.

    The function takes rows and their indices, and tokenizes the rows as `tokenize` does.
    """
    config = read_model_config(model_directory)
    tokenizer = read_tokenizer(model_directory, needs_single_eos_token(config, task.of_kind.head))

    def encode(batch: Columns, numbers: Sequence[int]) -> dict[str, list]:
        set_of = dict(zip(numbers, batch[SET], strict=True))
        if apart:
            batch = separate_texts(batch)
        encoded = task.of_kind.encode(tokenizer, batch, max_length, doc_stride)
        if apart:
            encoded["row"] = [number for number in numbers for _ in task.text]
        encoded[SET] = [set_of[number] for number in encoded.get("row", numbers)]
        if not has_token_types(config):
            del encoded["token_type_ids"]
        largest = max(max(ids, default=0) for ids in encoded["input_ids"])
        vocab_size = config.get("vocab_size") or largest + 1
        # The tokenizer of another model may have a larger vocabulary.
        if largest >= vocab_size:
            raise SubtuneError(
                f"{model_directory / TOKENIZER}: found a token with id {largest}, expected ids "
                f"below {vocab_size}, the vocab_size of the model"
            )
        return encoded

    return encode
