"""Predict new data with recorded runs, and refit cross-validation runs."""

import io
import itertools
import math
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import numpy as np
import torch

from subtune.analysis.chosen_runs import SETTING
from subtune.analysis.failures import compute_probabilities
from subtune.analysis.tables import find_table_files, read_table, write_lists_as_json
from subtune.core.errors import SubtuneError, convert_errors, format_allowed, join_names
from subtune.core.files import Layout, require_new, write_text
from subtune.core.gpus import hold_gpu
from subtune.core.process import prepare_device, print_line
from subtune.data.load import read_examples, row_encoder
from subtune.data.sources import files_version, make_columns, read_columns, task_reader
from subtune.data.subsets import draw_rows, read_table_description
from subtune.data.table_files import is_file, write_rows
from subtune.methods.baselines import Estimator
from subtune.methods.single_entries import ChosenEntries, read_mask_names
from subtune.models.encoder import load_spec_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.forward import compute_hidden_states
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.share import DEFAULT_MINUTES
from subtune.steps.jobs import Job, run_job
from subtune.steps.train import make_trainer
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, Reads
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.tasks.task_kind import PlacedRow
from subtune.training.checkpoints import Checkpoints
from subtune.training.estimators import FittedEstimator, fit_estimator
from subtune.training.evaluation import check_padding
from subtune.training.recorded_runs import (
    find_tokens_read,
    predict_logits,
    pretrained_directory,
)
from subtune.training.tf_idf import TextRegression, fit_texts

if TYPE_CHECKING:
    import pandas as pd

CHECKPOINT_SECONDS = 600
PREDICTION, PROBABILITY = "prediction", "probability_{}"


def run_to_export(layout: Layout, run_id: str, minutes: float = DEFAULT_MINUTES) -> str:
    """Return the id of the run to export: the given run or, after cross-validation, its refit.

    The refit is trained first if it is not recorded. If the training examples were sampled from a
    larger table, it trains on as many examples of this table as ``minutes`` allow.

    Raises:
        SubtuneError: the run does not have its method's chosen learning rate, or training failed.
    """
    store = Path(layout.records())
    if records.read_spec(store, run_id).recipe.fold is None:
        return run_id
    method, spec, seconds_per_row = find_refit(layout, run_id)
    spec, which = _extend_training_set(layout, spec, int(60 * minutes / seconds_per_row))
    if not records.is_recorded(store, spec.id):
        print_line(f"retraining {method} on {which}")
        with convert_errors(f"retraining {method}"):
            _train_refit(layout, spec)
    return spec.id


def _extend_training_set(layout: Layout, spec: RunSpec, number: int) -> tuple[RunSpec, str]:
    """Extend a refit's training set to ``number`` examples of the table that it was sampled from.

    Returns the spec and a description of the examples. The examples stay the same if the table no
    longer exists, or if only the sampled examples can be used.
    """
    folder, data = Path(layout.sample()), spec.tokens.data
    whole, sample = read_table_description(folder), {s: folder / f"{s}.jsonl" for s in data.splits}
    # The directory may contain the sample of another call.
    is_of_run = whole and all(map(is_file, sample.values()))
    if whole is None or not is_of_run or files_version(sample) != data.version:
        return spec, "the examples of all folds"
    task = data.task.replace(encoding=whole.encoding, sheet=whole.sheet)
    path = Path(whole.path)
    sampled = len(read_columns(data.task, {"train": sample["train"]})["train"]["label"])
    which = f"the {sampled:,} examples sampled from {whole.rows:,}"
    if not is_file(path) or files_version({"train": path}) != whole.version:
        return spec, f"{which}, because {whole.path} has changed since"
    if min(number, whole.rows) <= sampled:
        return spec, which
    placed = [*task_reader(task).read(task, path, True)]
    columns = make_columns(task, placed, labelled=True, source=whole.path)
    chosen = draw_rows(task, columns, number, np.arange(len(placed)))
    # Only the columns that the task reads are written.
    names = task.columns_read(labelled=True)
    rows = [(place, {name: row[name] for name in names}) for place, row in placed]
    file = folder / f"train-{len(chosen)}.jsonl"
    write_rows(file, (rows[number] for number in chosen))
    data = data.replace(version=files_version({"train": file}), splits=("train",))
    tokens = spec.tokens.replace(data=data)
    read, made = {"rows": layout.dataset(data.key)}, {"tokens": layout.tokens(tokens.key)}
    inputs, files = read | {"model": layout.model(spec.model.id)}, {"files": {"train": str(file)}}
    jobs = (
        Job("dataset", data.key, data.json_types, {}, read, files),
        Job("tokens", tokens.key, tokens.json_types, inputs, made, {}),
    )
    for job in jobs:
        if not all(Path(output).exists() for output in job.outputs.values()):
            with redirect_stdout(io.StringIO()):
                run_job(job)
    return spec.replace(tokens=tokens), f"{len(chosen):,} of {whole.rows:,} examples"


def find_refit(layout: Layout, run_id: str) -> tuple[str, RunSpec, float]:
    """Build the refit of a cross-validation run. It trains on the examples of all folds.

    The refit uses the method's first seed and chosen learning rate. The number of epochs is the
    median of the best epochs on the folds, rounded up.

    Returns:
        The method, the spec of the refit, and its estimated seconds per training example.

    Raises:
        SubtuneError: the run does not have its method's chosen learning rate, all runs of the
            method diverged, or the comparison is not finished.
    """
    store = Path(layout.records())
    given, similar_ids = records.read_spec(store, run_id), []
    for path in find_table_files(layout.results, "chosen"):
        chosen = read_table(path, "scores")
        for _, runs in chosen[chosen["decides"]].groupby(SETTING, sort=False, dropna=False):
            if run_id in set(runs["run"]):
                method, scored = runs["method"].iloc[0], runs.dropna(subset="value")
                if scored.empty:
                    raise SubtuneError(
                        f"run {run_id}: all runs of method {method!r} diverged; choose a run of "
                        "another method"
                    )
                first = records.read_spec(store, scored["run"].iloc[0])
                epochs = math.ceil(scored["best_epoch"].median())
                seconds = scored["seconds"] / (scored["train_rows"] * first.recipe.epochs)
                return method, first.make_refit(epochs), epochs * seconds.median()
            other = records.read_spec(store, runs["run"].iloc[0])
            # The entries of a mask differ between folds.
            kinds = {type(other.selection), type(given.selection)}
            is_similar = other.selection == given.selection or kinds == {ChosenEntries}
            if other.model == given.model and is_similar:
                similar_ids.append(other.id)
    if similar_ids:
        raise SubtuneError(
            f"run {run_id} has a learning rate that was not chosen; use a run with the chosen "
            f"learning rate, such as {similar_ids[0]}"
        )
    raise SubtuneError(
        f"run {run_id} is a cross-validation run, and the comparison is not finished; run "
        "`subtune compare` or `subtune run` again"
    )


def _train_refit(layout: Layout, spec: RunSpec) -> None:
    """Train and record a refit. After an interruption, a new call continues from a checkpoint."""
    mask = spec.selection.mask_name
    inputs = {
        "model": layout.model(spec.model.id),
        "tokens": layout.tokens(spec.tokens.key),
        "masks": [_find_mask(layout, mask)] if mask else [],
        "texts": [layout.dataset(spec.tokens.data.key)] if spec.reads_texts else [],
    }
    checkpoints = Checkpoints(Path(layout.checkpoints()), CHECKPOINT_SECONDS)
    threads, store = torch.get_num_threads(), Path(layout.records())
    with hold_gpu(print_line):
        make_trainer(inputs, store, checkpoints, lambda line: None, threads)([spec])
    checkpoints.remove_recorded(store)


def _find_mask(layout: Layout, name: str) -> str:
    """Return the file of the mask with a name; raise a `SubtuneError` if it does not exist."""
    for path in sorted(Path(layout.mask("any")).parent.glob("*.safetensors")):
        if name in read_mask_names(path).values():
            return str(path)
    raise SubtuneError(f"{layout.mask('*')}: no mask {name}; run `subtune run` again")


def predict_table(
    layout: Layout,
    run: str,
    table: Path,
    target: Path,
    texts: Sequence[str | None] = (),
    encoding: str | None = None,
    sheet: str | None = None,
    minutes: float = DEFAULT_MINUTES,
) -> int:
    """Write the rows of a table with a run's predictions to a CSV file, and return their number.

    For a cross-validation run, the refit is trained first, within ``minutes``, and used instead.

    Args:
        layout: the paths of the results that contain the run.
        run: the run's id.
        table: a file in any format that training data can have. Its labels are not read.
        target: the new CSV file. Predictions that are lists are written as JSON.
        texts: the names of the text columns. None means the names used in training.
        encoding: the encoding of a text file; None means UTF-8 or UTF-16.
        sheet: the sheet of an Excel file; None means the first sheet.
        minutes: the time limit for a refit.

    Raises:
        SubtuneError: a row is not valid for the task, a column has the same name as a column of the
            predictions, or ``target`` exists or cannot be written.
    """
    import pandas as pd

    if target.suffix.lower() != ".csv":
        raise SubtuneError(f"--to: found {str(target)!r}, expected a name that ends in .csv")
    require_new(target)
    spec = records.read_spec(Path(layout.records()), run)
    task = spec.tokens.data.task.replace(encoding=encoding, sheet=sheet)
    if any(texts):
        if task.of_kind.text or any(texts[len(task.text) :]):
            raise SubtuneError(
                f"--text, --text2: the model reads only {join_names(task.text)}; omit other columns"
            )
        names = zip(texts, task.text, strict=False)
        task = task.replace(text=tuple(new or old for new, old in names))
    rows = read_new_rows(task, table)
    frame = pd.DataFrame([row for _, row in rows])
    for column in (PREDICTION, *map(PROBABILITY.format, task.labels or ())):
        if column in frame:
            raise SubtuneError(
                f"{table}: column {column!r} has a name reserved for predictions; rename it"
            )
    predicted = predict_rows(layout, run, task, rows, str(table), minutes)
    written = write_lists_as_json(pd.concat([frame, predicted], axis=1))
    require_new(target)
    with convert_errors(f"cannot write {target}"):
        write_text(target, written.to_csv(index=False, float_format="%.7g"))
    return len(frame)


def read_new_rows(task: TaskSpec, table: Path) -> list[PlacedRow]:
    """Read the rows of a file without their labels, or raise a `SubtuneError`."""
    reader = task_reader(task)
    if table.suffix.lower() not in reader.endings:
        raise SubtuneError(f"{table}: {format_allowed(table.suffix, reader.endings)}")
    return [*reader.read(task, table, False)]


def predict_rows(
    layout: Layout,
    run: str,
    task: TaskSpec,
    rows: Sequence[PlacedRow],
    source: str,
    minutes: float = DEFAULT_MINUTES,
) -> "pd.DataFrame":
    """Predict the labels of new rows with a run or, after cross-validation, with its refit.

    All rows are checked before the refit is trained.

    Args:
        layout: the paths of the results that contain the run.
        run: the run's id.
        task: the run's task. Its text columns can have other names than in training.
        rows: the rows, each with its place in ``source`` for messages.
        source: the name of the file with the rows, for messages.
        minutes: the time limit for a refit.

    Returns:
        A table with one row per row of ``rows``. The column ``prediction`` contains a label, a
        number in the unit of the labels or, for multi-label tasks and token classification, a list
        of labels. For classification, there is a column ``probability_<label>`` for each label. The
        cells of rows without text are missing.

    Raises:
        SubtuneError: a row is not valid for the task, the run diverged, or the record or the
            pretrained model is missing.
    """
    import pandas as pd

    store, kind = Path(layout.records()), task.of_kind
    has_text = [any(str(row.get(c) or "").strip() for c in task.text) for _, row in rows]
    if kind.head == SEQUENCE_CLASSIFICATION and not all(has_text) and any(has_text):
        without = (place for (place, _), filled in zip(rows, has_text, strict=True) if not filled)
        print_line(f"{source}: rows without text get no prediction: {join_names(without, 12)}")
        filled = [*itertools.compress(rows, has_text)]
        predicted = predict_rows(layout, run, task, filled, source, minutes)
        return predicted.set_axis(np.flatnonzero(has_text)).reindex(range(len(rows)))
    columns = make_columns(task, rows, labelled=False, source=source)
    run = run_to_export(layout, run, minutes)
    spec = records.read_spec(store, run)
    if spec.reads_texts:
        texts = [columns[name] for name in TEXT_COLUMNS if name in columns]
        logits = fit_text_baseline(layout, spec).predict_logits(texts)
        return pd.DataFrame(_format_predictions(task, logits))
    directory, tokens = Path(pretrained_directory(layout, spec)), spec.tokens
    encode = row_encoder(task, directory, tokens.max_length, tokens.doc_stride, tokens.apart)
    split = datasets.Dataset.from_dict(encode(columns, columns["idx"]))
    with hold_gpu(print_line):
        device = prepare_device(torch.get_num_threads())
        # No variable refers to the model after this block, so its GPU memory is freed.
        model = load_spec_encoder(spec, str(directory)).to(device)
        if isinstance(spec.selection, Estimator):
            train = _read_training_set(layout, spec, find_tokens_read(spec, model))
            examples = Examples(split, find_tokens_read(spec, model))
            model = check_padding(model, [train, examples], compute_hidden_states)
            logits = fit_estimator(spec, train, model)[0].predict_logits(examples)
        else:
            examples, logits = predict_logits(store, spec, model, split)
    if kind.head == SEQUENCE_CLASSIFICATION:
        return pd.DataFrame(_format_predictions(task, logits))
    table = kind.prediction_table(examples, kind.predict(examples, logits))
    if task.labels is None:
        return table[[PREDICTION]]
    labels = np.array(task.labels, object)
    tags = [labels[words].tolist() for _, words in table.groupby("idx")[PREDICTION]]
    return pd.DataFrame({PREDICTION: tags})


def fit_text_baseline(layout: Layout, spec: RunSpec) -> TextRegression | FittedEstimator:
    """Fit a baseline that reads texts again, because records do not contain it."""
    train = _read_training_set(layout, spec)
    if isinstance(spec.selection, Estimator):
        return fit_estimator(spec, train, None)[0]
    return fit_texts(train, spec.tokens.data.task, spec.fit_recipe, spec.seed)[0]


def _read_training_set(layout: Layout, spec: RunSpec, reads: Reads = "first") -> Examples:
    tokens = spec.tokens
    texts = [layout.dataset(tokens.data.key)] if spec.reads_texts else []
    return Examples(read_examples(layout.tokens(tokens.key), *texts)["train"], reads)


def _format_predictions(task: TaskSpec, logits: np.ndarray) -> dict[str, Any]:
    """Convert the logits of texts, ``[texts, outputs]``, to the columns of `predict_rows`."""
    if task.labels is None:
        return {PREDICTION: logits[:, 0]}
    labels = np.array(task.labels, object)
    probabilities = compute_probabilities(task, logits.astype(float))
    predicted = labels[probabilities.argmax(1)].tolist()
    if task.of_kind.problem_type == "multi_label_classification":
        predicted = [labels[row > 0.5].tolist() for row in probabilities]
    names = map(PROBABILITY.format, labels)
    return {PREDICTION: predicted} | dict(zip(names, probabilities.T, strict=True))
