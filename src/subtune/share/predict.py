"""Predictions of an exported model for new rows, with the code that other users would call."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import datasets
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from subtune.core.errors import SubtuneError, one_line
from subtune.core.files import require_new
from subtune.core.hub import download_snapshot
from subtune.core.machine import prepare
from subtune.data.batches import EVALUATION_TOKENS
from subtune.data.text_files import file_ending
from subtune.models.encoder import load_encoder, quiet
from subtune.models.families import HEADS, SEQUENCE_CLASSIFICATION
from subtune.models.files import (
    CONFIG,
    INDEX,
    MINILM,
    MODULES,
    SHARDS,
    WEIGHTS,
    choose_head,
    has_one_end,
    has_token_types,
    model_version,
    package_directory,
    read_config,
)
from subtune.models.tokenizer import read_tokenizer
from subtune.models.transformers_models import AUTO_CLASSES, make_transformers_model
from subtune.runs.spec import RunSpec
from subtune.share.export import ADAPTER, REGRESSION, SPEC
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import separate_texts
from subtune.tasks.task_kind import PlacedRow
from subtune.training.embeddings import features_of

if TYPE_CHECKING:
    import pandas as pd

PREDICTION, PROBABILITY = "prediction", "probability_{}"


def exported_spec(directory: Path) -> RunSpec:
    """Return the spec of an exported model's run.

    Raises:
        SubtuneError: the folder has no spec, or a file that would be unpickled.
    """
    path = directory / SPEC
    if not path.is_file():
        raise SubtuneError(f"found no {SPEC} in {str(directory)!r}, expected an exported model")
    if pickles := sorted(directory.rglob("*.bin")):
        raise SubtuneError(f"found {pickles[0]}, expected weights in safetensors alone")
    with one_line(f"{path} is not the spec of a run"):
        return RunSpec.model_validate_json(path.read_bytes())


def predict(
    directory: Path,
    spec: RunSpec,
    task: TaskSpec,
    rows: Sequence[PlacedRow],
    source: str,
    base: Path | None = None,
) -> "pd.DataFrame":
    """Return an exported model's prediction for each row.

    The columns are ``prediction`` (a label word, or a number in the labels' own unit) and, for
    classes, ``probability_…`` of each class. For multi-label tasks and words, predictions are
    lists.

    Args:
        directory: the exported model's folder.
        spec: the model's run.
        task: the run's task, perhaps with other text columns.
        rows: rows with their places, which messages name after ``source``.
        base: the folder of an adapter's base; default: the one that the adapter names.

    Raises:
        SubtuneError: a row does not fit the task, or the model cannot be loaded.
    """
    import pandas as pd

    kind = task.of_kind
    columns = kind.from_rows(task, rows, labelled=False, source=source)
    base = _base_of(directory, spec, base) if (directory / ADAPTER).is_file() else None
    examples = _examples(directory, spec, task, columns, read_config(base or directory))
    device = prepare(torch.get_num_threads())
    with one_line(f"{directory} cannot be loaded"), quiet():
        forward = _loaded(directory, spec, base, device)
        regression = load_file(directory / REGRESSION / WEIGHTS) if spec.tokens.apart else None
    logits = _logits_of(forward, examples, device)
    if regression is not None:
        features = features_of(logits[::2], logits[1::2])
        logits = features @ regression["linear.weight"].numpy().T
        logits += regression["linear.bias"].numpy()
    if kind.head == SEQUENCE_CLASSIFICATION:
        return pd.DataFrame(_text_columns(task, logits))
    table = kind.table(examples, kind.predict(examples, logits))
    if task.labels is None:
        return table[[PREDICTION]]
    rows_of_words = table.groupby("idx")[PREDICTION]
    tags = [[task.labels[n] for n in words] for _, words in rows_of_words]
    return pd.DataFrame({PREDICTION: tags})


def _examples(
    directory: Path,
    spec: RunSpec,
    task: TaskSpec,
    columns: dict[str, list],
    config: Mapping[str, Any],
) -> Examples:
    """Return the token ids of rows, as in training.

    Args:
        directory: the exported model's folder, which has its tokenizer.
        spec: the model's run.
        task: the run's task.
        columns: the rows' columns, as the task's kind has read them.
        config: the configuration of the pretrained model.
    """
    kind, tokens = task.of_kind, spec.tokens
    tokenizer = read_tokenizer(directory, has_one_end(config, kind.head))
    if tokens.apart:
        columns = separate_texts(columns)
    encoded = kind.encode(tokenizer, columns, tokens.max_length, tokens.doc_stride)
    if not has_token_types(config):
        del encoded["token_type_ids"]
    return Examples(datasets.Dataset.from_dict(encoded), HEADS[kind.head])


def require_csv(target: Path) -> None:
    """Refuse the name of an existing file, or of a file in another format."""
    if file_ending(target) != ".csv":
        raise SubtuneError(f"--to: found {str(target)!r}, expected a name that ends in .csv")
    require_new(target)


def require_new_columns(table: "pd.DataFrame", task: TaskSpec, source: Path) -> None:
    """Refuse a table that already has a column of predictions."""
    for column in (PREDICTION, *map(PROBABILITY.format, task.labels or ())):
        if column in table:
            raise SubtuneError(
                f"{source}: found a column {column!r}, which predictions would have; rename it"
            )


def write(table: "pd.DataFrame", predicted: "pd.DataFrame", target: Path) -> None:
    """Write a table and its predictions as CSV, completely or not at all, with lists as JSON.

    Raises:
        SubtuneError: ``target`` exists or cannot be written.
    """
    import pandas as pd

    table = pd.concat([table, predicted], axis=1)
    require_new(target)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")

    def as_text(cell: Any) -> Any:
        return json.dumps(cell, ensure_ascii=False) if isinstance(cell, list | dict) else cell

    try:
        with one_line(f"cannot write {target}"):
            table.map(as_text).to_csv(draft, index=False, float_format="%.7g")
            draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)


def _base_of(directory: Path, spec: RunSpec, base: Path | None) -> Path:
    """Return the folder of an adapter's base, downloaded if it is on the hub.

    Raises:
        SubtuneError: the base is missing, or has other weights.
    """
    path = directory / ADAPTER
    with one_line(f"{path} is not a configuration of PEFT"):
        fields = json.loads(path.read_text(encoding="utf-8"))
        name, revision = fields["base_model_name_or_path"], fields.get("revision")
        base = base or Path(name)
    if base.is_dir():
        if spec.model.source == "files" and model_version(base) != spec.model.version:
            raise SubtuneError(
                f"--base: found other files of a model in {str(base)!r}, expected the files "
                "that the adapter was trained on"
            )
        return base
    if not revision or base != Path(name):
        raise SubtuneError(f"found no folder {str(base)!r}, the adapter's base; --base names it")
    if (name, revision) == (MINILM.repository, MINILM.commit):
        # If the package is missing, its model is downloaded.
        with contextlib.suppress(SubtuneError):
            return package_directory(MINILM.package)
    files = [CONFIG, WEIGHTS, INDEX, SHARDS]
    advice = {"name": f"could not download {name}", "instead": "name its folder as --base"}
    return download_snapshot(name, revision, files, repo_type="model", **advice)


def _loaded(
    directory: Path, spec: RunSpec, base: Path | None, device: torch.device
) -> Callable[[dict[str, Tensor]], Tensor]:
    """Return a function that maps texts of equal length to logits ``[n, o]`` or ``[n, t, o]``."""
    task, pooling = spec.tokens.data.task, spec.model.pooling
    head = task.of_kind.head
    module: Any
    if base is None and (directory / MODULES).is_file():
        from sentence_transformers import SentenceTransformer

        safe: dict[str, Any] = {"local_files_only": True, "model_kwargs": {"use_safetensors": True}}
        module = SentenceTransformer(str(directory), device=str(device), **safe).eval()
        return lambda inputs: module(inputs)["sentence_embedding"]
    if base is None:
        settings = {"use_safetensors": True, "local_files_only": True, "dtype": torch.float32}
        module = AUTO_CLASSES[head].from_pretrained(directory, **settings)
    else:
        from peft import PeftModel

        untrained = load_encoder(base, head, task.outputs, pooling)
        head = choose_head(pooling, head, untrained.config.to_dict())
        module = PeftModel.from_pretrained(make_transformers_model(untrained), str(directory))
    module = module.to(device).eval()
    averages = head != task.of_kind.head

    def forward(inputs: dict[str, Tensor]) -> Tensor:
        found = module(**inputs)
        if "logits" not in found:
            return torch.stack([found.start_logits, found.end_logits], -1)
        # PEFT's virtual tokens precede a text.
        logits = found.logits
        if logits.ndim == 3:
            logits = logits[:, -inputs["input_ids"].shape[1] :]
        return logits.mean(1) if averages else logits

    return forward


def _logits_of(
    forward: Callable[[dict[str, Tensor]], Tensor], examples: Examples, device: torch.device
) -> np.ndarray:
    """Return the logits of all tokens that the head reads, in the examples' order.

    All texts of a batch have the same length: without padding, no text depends on the others.
    """
    found, reads = [np.empty(0)] * len(examples), examples.reads
    with torch.inference_mode(), tqdm(total=len(examples), desc="texts", disable=None) as bar:
        for length in np.unique(examples.lengths):
            alike = np.flatnonzero(examples.lengths == length)
            for batch in np.array_split(alike, -(-len(alike) * length // EVALUATION_TOKENS)):
                inputs = {
                    name: torch.tensor(np.stack([lists[n] for n in batch]), device=device)
                    for name, lists in examples.inputs.items()
                }
                inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
                computed = forward(inputs).float().cpu().numpy()
                for n, logits in zip(batch, computed, strict=True):
                    tokens = logits.reshape(-1, logits.shape[-1])
                    found[n] = tokens if reads is None else tokens[reads[n]]
                bar.update(len(batch))
    return np.concatenate(found)


def _text_columns(task: TaskSpec, logits: np.ndarray) -> dict[str, Any]:
    """Return the columns of predictions for texts, from logits ``[n, o]``."""
    if task.labels is None:
        return {PREDICTION: logits[:, 0]}
    labels, double = np.array(task.labels, object), torch.from_numpy(logits).double()
    if task.of_kind.problem_type == "multi_label_classification":
        probabilities = double.sigmoid().numpy()
        predicted = [labels[row > 0.5].tolist() for row in probabilities]
    else:
        probabilities = double.softmax(1).numpy()
        predicted = labels[probabilities.argmax(1)].tolist()
    names = map(PROBABILITY.format, labels)
    return {PREDICTION: predicted} | dict(zip(names, probabilities.T, strict=True))
