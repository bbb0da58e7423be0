"""The first configuration for a user's tables: what is guessed and chosen, and the file."""

import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import yaml

from subtune.comparison import DEFAULTS, Options, TableOptions, messages
from subtune.comparison.look import (
    Facts,
    Lengths,
    describe_lengths,
    describe_tables,
    require_labels,
)
from subtune.comparison.settings import (
    StartingModel,
    estimate_times,
    find_starting_model,
    list_experiments,
    possible_windows,
)
from subtune.comparison.user_table import (
    guess_label_columns,
    guess_text_columns,
    label_names,
    label_order,
    make_task_name,
    read_user_table,
    require_texts,
)
from subtune.config.checks import check_config
from subtune.config.schema import Config, Experiment, OwnTask
from subtune.core import process
from subtune.core.errors import SubtuneError, one_line, one_of
from subtune.data import sources
from subtune.data.sources import measure_columns
from subtune.tasks import Task
from subtune.tasks.sentences import parse_number
from subtune.tasks.task import TEST, TaskSize

if TYPE_CHECKING:
    from subtune.comparison.pace import MeasuredPace

# The name of the only experiment. With a paper's name, it would get the paper's tables.
EXPERIMENT = "mine"


def look_at_tables(
    paths: Mapping[str, Path | None], options: TableOptions
) -> tuple[Facts, StartingModel, np.ndarray]:
    """Read a user's tables, and collect facts about them.

    Args:
        paths: the file of each split, or None.
        options: the user's options.

    Returns:
        The facts, the model, and the numbers of tokens of training texts.

    Raises:
        SubtuneError: a table cannot be read, or a column cannot be guessed or is missing.
    """
    tables = {
        split: read_user_table(path, options.encoding, options.sheet)
        for split, path in paths.items()
        if path
    }
    train, named = tables["train"], options.label
    text = tuple(column for column in (options.text, options.text2) if column)
    require_texts(train, text)
    if isinstance(named, str) and "," in named and named not in train.columns:
        named = [name.strip() for name in named.split(",")]
    label = named if isinstance(named, str) else tuple(named or ())
    label = label or guess_label_columns(train)
    text = text or guess_text_columns(train, label_names(label))
    for column in (*text, *label_names(label)):
        for table in tables.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")
    model = find_starting_model(options.model)
    cells = (train.cells(column) for column in text)
    counts, unknown = model.token_counts(
        [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    )
    window = possible_windows(counts, model.longest_text)[0]
    lengths = describe_lengths(counts, window, bool(model.directory), unknown)
    guessed = tuple(n for n in ("text", "label", "sheet", "kind") if getattr(options, n) is None)
    return describe_tables(tables, text, label, lengths, options.kind, guessed), model, counts


def write_first_configuration(
    paths: Mapping[str, Path | None], options: Options, target: Path, results: str | None = None
) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices.

    Args:
        paths: the file of each split, or None.
        options: the user's options.
        target: the path of the configuration.
        results: directory of the results; default: the task's name, below results.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    facts, model, counts = look_at_tables(paths, options)
    yield from messages.look_lines(facts)
    task = make_task(facts, options)
    files = {split: part.path for split, part in facts.parts.items()}
    by_split = sources.user_task_files(files, task, may_lack="validation")
    columns = sources.read_columns(task, by_split)
    yield f"metrics: {', '.join(task.metrics)}"
    size = measure_columns(task, columns)
    folds, rows = None, size.train_rows
    if "validation" not in files:
        folds = _count_folds(files["train"], size)
        rows -= rows // folds
        yield from messages.fold_lines(facts, folds)
    yield messages.model_line(model)
    problems = model.problems_by_method(DEFAULTS.methods, task)
    yield from (f"method {method} is left out: {why}" for method, why in problems.items())
    methods = [method for method in DEFAULTS.methods if method not in problems]
    # Importing torch takes seconds.
    from subtune.comparison.pace import measure_pace

    windows = possible_windows(counts, model.longest_text)
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * 60 * options.minutes)
    timed = measure_pace(model, task, columns["train"], windows[0], methods, seconds)
    fixed: dict[str, Any] = {"models": [model.name], "tasks": [task.name], "folds": folds}
    fixed |= {"margin": options.margin, "precision": timed.precision}
    if task.of_kind.has_numbers:
        fixed["labels"] = model.labels
    choices = list_experiments(rows, windows, model.hidden_size, methods, fixed, timed.least_batch)
    config = _make_config(results, task, files, model, timed, choices[0])
    # The first experiment that ends in time is chosen, or else the last.
    for chosen in choices:
        config = config.model_copy(update={"experiments": {EXPERIMENT: chosen}})
        tokens = counts.clip(max=chosen.max_length).mean()
        times = estimate_times(config, size.replaced(tokens=tokens))
        if times is None or times.all <= 60 * options.minutes:
            break
    yield messages.run_line(chosen)
    lengths = describe_lengths(counts, chosen.max_length, bool(model.directory))
    yield from messages.reduction_lines(choices[0], chosen, rows, lengths, options.minutes)
    yield from messages.time_lines(model, times, options.minutes)
    text = _render(config, task, model, timed, target, rows, lengths)
    with one_line(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


def make_task(facts: Facts, options: Options) -> Task:
    """Return the task of some tables.

    Raises:
        SubtuneError: nothing can be learnt from the labels, or the columns do not make a task.
    """
    require_labels(facts)
    label, kind, parts = facts.label, facts.kind, facts.parts
    train, dev = parts["train"].labels, parts.get("validation", parts["train"]).labels
    words = sorted({*train, *dev}, key=label_order) if isinstance(label, str) else label
    if kind == "classification" and len(words) == 2 and parse_number(words[1]) is None:
        # F1 of two classes is F1 of the last one. The rarer one is the harder to find.
        words = sorted(words, key=lambda word: -train.get(word, 0))
    metrics = DEFAULTS.metrics[kind]
    if kind == "classification":
        even = sum(train.values()) / len(words)
        # Always predicting a class that is most of the rows scores well by accuracy.
        if max(train.values()) > DEFAULTS.imbalance * even:
            metrics = DEFAULTS.metrics["unbalanced"]
    name = make_task_name(Path(facts.parts["train"].path))
    return Task(
        name=name,
        title=name,
        text=facts.text,
        label=label,
        labels=None if kind == "regression" else tuple(words),
        kind=kind,
        metrics=tuple(metrics),
        evaluation=("validation", TEST) if TEST in parts else ("validation",),
        encoding=options.encoding,
        sheet=options.sheet,
    )


def _count_folds(train: str, size: TaskSize) -> int:
    """Return the number of folds that the training rows can be divided into.

    Raises:
        SubtuneError: the rows cannot be divided.
    """
    folds = size.most_folds(DEFAULTS.seeds)
    if folds < 2 and size.scarcest:
        raise SubtuneError(
            f"{train}: found too few {size.scarcest[0]}, expected at least two, one to train on "
            "and one to evaluate on"
        )
    return folds


def _make_config(
    results: str | None,
    task: Task,
    files: Mapping[str, str],
    model: StartingModel,
    timed: "MeasuredPace",
    experiment: Experiment,
) -> Config:
    """Return the configuration of an experiment."""
    settings = task.model_dump(include={*OwnTask.model_fields})
    settings |= {"files": files, "predictions": dict(task.predictions)}
    return check_config(
        {
            "results": results or f"results/{task.name}",
            "models": {model.name: {model.source: model.reference, "pooling": model.pooling}},
            "tasks": {task.name: settings},
            "experiments": {EXPERIMENT: experiment},
            "jobs_at_once": process.count_jobs_at_once(),
            "assumptions": {
                "device": timed.device,
                "start_minutes": DEFAULTS.start_minutes,
                "pace": timed.pace,
            },
        }
    )


def _render(
    config: Config,
    task: Task,
    model: StartingModel,
    timed: "MeasuredPace",
    target: Path,
    rows: int,
    lengths: Lengths,
) -> str:
    """Return the text of a configuration, with comments.

    Args:
        config: the configuration.
        task: its task.
        model: its model.
        timed: the pace of this machine.
        target: the path of the configuration.
        rows: the number of rows on which a run can train.
        lengths: the lengths of the training texts.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.comparison", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    flow = partial(yaml.safe_dump, default_flow_style=True)
    environment.filters |= {"quoted": quote_yaml, "flow": flow, "command": run_command}
    experiment = config.experiments[EXPERIMENT]
    [train_rows] = experiment.list_row_numbers(rows)
    others = [name for name in task.of_kind.metrics if name not in task.metrics]
    if task.outputs != 2:
        # F1 is of two classes.
        others = [name for name in others if name != "f1"]
    return environment.get_template("first_configuration.yaml").render(
        config=config,
        name=EXPERIMENT,
        experiment=experiment.model_dump(mode="json"),
        task=task,
        model=model,
        timed=timed,
        target=target,
        rows=rows,
        train_rows=train_rows,
        steps=math.ceil(train_rows / experiment.batch_size) * experiment.epochs,
        cut_share=messages.describe_cut_texts(lengths),
        other_metrics=others,
        defaults=DEFAULTS,
    )


def run_command(target: Path) -> str:
    """Return the command that trains a configuration."""
    program = "subtune"
    if not shutil.which(program):
        program = str(Path(sys.executable).with_name(program))
    return shlex.join([program, "run", str(target)])


def quote_yaml(text: str) -> str:
    """Return a text as YAML, in quotation marks if YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")
