"""Parts of a comparison: Fisher information, a method's parameters, one training run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from subtune.core import jobs
from subtune.core.errors import SubtuneError
from subtune.data import files
from subtune.data.load import load as load_rows
from subtune.data.load import tokenize
from subtune.init.first_configuration import Request, look, task_of
from subtune.init.settings import model_called
from subtune.interface.tables import Rows, Split, as_names, errors_in_python, splits_of, write_all
from subtune.models.dimensions import tensors_of
from subtune.models.encoder import Encoder, load_model
from subtune.models.files import lacks_pooler, pooling_in, version_of
from subtune.selections import SELECTION, Selection
from subtune.selections.added import Embeddings
from subtune.selections.methods import named
from subtune.selections.specs import DataSpec, ModelSpec, Recipe, RunSpec, TokensSpec
from subtune.tasks.examples import Examples
from subtune.tasks.formats import validated
from subtune.training.evaluation import Result
from subtune.training.fisher import Fisher, fisher_information
from subtune.training.sweeps import Job

if TYPE_CHECKING:
    import datasets
    import pandas as pd


@dataclass(frozen=True)
class Method:
    """A method: a selection of parameters."""

    selection: Selection

    def resolve(self, model: str | Path | None = None, labels: int = 2) -> "pd.DataFrame":
        """List the tensors that the method trains in a model, without reading the model's weights.

        Args:
            model: a directory or an installed package; default: MiniLM.
            labels: the number of labels of the classifier, which always trains.

        Returns:
            ``tensor`` (a pattern that matches the row's tensors), ``times`` (their number), ``own``
            (the pattern in transformers' model), ``shape`` (of one tensor), ``trains`` (the number
            of trained entries in all of them) and ``how`` (in words).

        Raises:
            SubtuneError: the model lacks what the method selects.
        """
        return tensors_of(self.selection, _directory(model), labels)


def selection(method: str | Mapping[str, Any]) -> Method:
    """Return a method by its name, or from the YAML of a selection as a mapping.

    Raises:
        SubtuneError: there is no method of that name, or the mapping is no selection.
    """
    if isinstance(method, str):
        return Method(named(method, {}))
    with validated("method", most=1):
        return Method(SELECTION.validate_python(method))


def fisher(
    model: str | Path | None,
    rows: Rows,
    *,
    number: int | None = None,
    max_length: int = 128,
    seed: int = 0,
    **columns: Any,
) -> Fisher:
    """Return the Fisher information of a pretrained model (LayerNorm paper, Eq. 2).

    Args:
        model: a directory or an installed package; None: MiniLM.
        rows: labelled rows, as a file, a DataFrame, a ``Dataset`` or the name of a dataset on the
            hub.
        number: the number of rows to draw; default: all.
        max_length: the largest number of tokens of a text.
        seed: seed of the drawn rows and the untrained classifier.
        columns: ``text``, ``text2``, ``label`` and ``kind``, as in `compare`.

    Raises:
        SubtuneError: the model or the rows cannot be used.
    """
    loaded, spec, tokens = _read(model, {"train": splits_of(rows)["train"]}, max_length, columns)
    return fisher_information(loaded, tokens["train"], spec.data.task, number, seed)


def train(
    model: str | Path | None,
    train: Rows,
    dev: Rows | float,
    method: str | Mapping[str, Any],
    *,
    learning_rate: float,
    epochs: int = 3,
    batch_size: int = 16,
    max_length: int = 128,
    seed: int = 0,
    **columns: Any,
) -> Result:
    """Train one run in this process and return its learning curve, best epoch and changed values.

    The schedule is linear with a warm-up of a tenth, and a regression trains on standardised labels
    if the classifier has a bias. Unlike `compare`, the function searches no learning rate, has a
    single seed, and records nothing.

    Args:
        model: a directory or an installed package; None: MiniLM.
        train: rows to train on, as for `compare`.
        dev: rows to evaluate on, as for `compare`.
        method: a method's name, or a selection as a mapping.
        columns: ``text``, ``text2``, ``label`` and ``kind``, as in `compare`.

    Raises:
        SubtuneError: the model or the rows cannot be used.
    """
    with validated("train", most=1):
        recipe = Recipe(
            learning_rate=learning_rate,
            batch_size=batch_size,
            epochs=epochs,
            schedule="linear",
            warmup=0.1,
            weight_decay=0,
            max_grad_norm=1,
            precision="fp32",
        )
    chosen = selection(method).selection
    if isinstance(chosen, Embeddings):
        raise SubtuneError(f"method: found {method!r}, expected one that trains")
    loaded, tokens_spec, tokens = _read(model, splits_of(train, dev), max_length, columns)
    if tokens_spec.data.task.of_kind.has_numbers and [*loaded.parameters][-1].endswith(".bias"):
        recipe = recipe.replaced(labels="standard")
    spec = RunSpec(
        model=ModelSpec(source="files", version=tokens_spec.tokenizer),
        tokens=tokens_spec,
        selection=chosen,
        recipe=recipe,
        seed=seed,
    )
    task = tokens_spec.data.task
    examples = {s: Examples(tokens[s], loaded.reads) for s in task.labelled}
    job = Job(loaded, examples, task, {}, None, None)
    return dict(job.train({"run": spec}, lambda report: None))["run"]


def _read(
    model: str | Path | None,
    splits: Mapping[str, Split],
    max_length: int,
    columns: Mapping[str, Any],
) -> tuple[Encoder, TokensSpec, "datasets.DatasetDict"]:
    """Return a model with a head for the rows' task, and the task's token ids by split."""
    directory = _directory(model)
    with TemporaryDirectory() as place, errors_in_python(Path(place)):
        paths = write_all(splits, Path(place), Path(place))
        names = {name: as_names(value) for name, value in columns.items()}
        request = Request(paths["train"], paths.get("validation"), model=str(directory), **names)
        found = look(request)
        task = task_of(request, found)
        # Fisher information needs no evaluation rows.
        by_split = {"validation": found.paths["train"]} | found.paths
        data = DataSpec(
            task=task, source="files", version=files.version_of(files.own_paths(by_split, task))
        )
        rows = load_rows(data, paths=by_split)
    with validated("tokens", most=1):
        spec = TokensSpec(data=data, tokenizer=version_of(directory), max_length=max_length)
    tokens = tokenize(task, rows, directory, max_length)
    pooling = pooling_in(directory) or ("mean" if lacks_pooler(directory) else None)
    loaded = load_model(directory, task.of_kind.head, task.outputs, pooling)
    return loaded.to(jobs.prepare(torch.get_num_threads())), spec, tokens


def _directory(model: str | Path | None) -> Path:
    with errors_in_python():
        found = model_called(None if model is None else str(model))
    if found.directory is None:
        raise SubtuneError(
            f"model: found {found.reference!r}, expected a directory or an installed package; "
            "huggingface_hub.snapshot_download downloads a model of the hub"
        )
    return found.directory
