"""The first configuration for a user's tables: what is guessed and chosen, and the file."""

import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from subtune.comparison.predictions import join_predictions, list_predictions
from subtune.comparison.settings import (
    Choice,
    StartingModel,
    Times,
    estimate_times,
    find_learning_rates,
    find_starting_models,
    list_choices,
    possible_windows,
    write_rates,
)
from subtune.comparison.user_table import (
    UserTable,
    guess_label_columns,
    guess_text_columns,
    label_names,
    label_order,
    make_task_name,
    read_user_table,
    require_labels_as_text,
    require_texts,
)
from subtune.config.checks import check_config
from subtune.config.schema import Config, Experiment, MethodSettings, OwnTask
from subtune.core import process
from subtune.core.errors import SubtuneError, one_line, one_of
from subtune.core.files import Layout
from subtune.data import sources
from subtune.data.sample import (
    WholeTable,
    draw_dev_set,
    draw_rows,
    write_drawn_rows,
    write_whole_table,
)
from subtune.data.sources import measure_columns
from subtune.data.table_files import drop_unlabelled_rows
from subtune.tasks import Task
from subtune.tasks.sentences import parse_number
from subtune.tasks.task import TEST, TaskSize
from subtune.tasks.task_kind import Columns

if TYPE_CHECKING:
    from subtune.comparison.pace import MeasuredPace

# The name of the only experiment. With a paper's name, it would get the paper's tables.
EXPERIMENT = "mine"


class Look(NamedTuple):
    """A user's tables, the facts about them, and the models.

    Attributes:
        facts: the facts.
        tables: the table of each split.
        models: the models, by their names in the configuration.
        counts: the numbers of tokens of training texts, in ascending order.
        problems: why each model that cannot be used is left out, by the user's name for it.
    """

    facts: Facts
    tables: dict[str, UserTable]
    models: dict[str, StartingModel]
    counts: np.ndarray
    problems: dict[str, str]


def look_at_tables(paths: Mapping[str, Path | None], options: TableOptions) -> Look:
    """Read a user's tables, and collect facts about them.

    Args:
        paths: the file of each split, or None.
        options: the user's options.

    Raises:
        SubtuneError: a table cannot be read, a column cannot be guessed or is missing, or no model
            can be used.
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
    require_labels_as_text(train, label_names(label))
    text = text or guess_text_columns(train, label_names(label))
    for column in (*text, *label_names(label), *filter(None, [options.group])):
        for table in tables.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")
    cells = (train.cells(column) for column in text)
    texts = [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    models, problems = find_starting_models(options.model, texts)
    [first, *_] = models.values()
    counts, unknown = first.token_counts(texts)
    longest = min(model.longest_text for model in models.values())
    window = possible_windows(counts, longest)[0]
    lengths = describe_lengths(counts, window, bool(first.directory), unknown)
    guessed = tuple(n for n in ("text", "label", "sheet", "kind") if getattr(options, n) is None)
    facts = describe_tables(tables, text, label, lengths, options.kind, guessed)
    return Look(facts, tables, models, counts, problems)


def write_first_configuration(
    paths: Mapping[str, Path | None],
    options: Options,
    target: Path,
    results: str | None = None,
    dev_share: float | None = None,
) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices.

    If not all rows fit into the minutes, or a dev set is drawn, the rows that are used are written
    to files below the results.

    Args:
        paths: the file of each split, or None.
        options: the user's options.
        target: the path of the configuration.
        results: directory of the results; default: the task's name, below results.
        dev_share: the share of the training rows that are drawn as the dev set.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    look = look_at_tables(paths, options)
    facts, models = look.facts, look.models
    yield from messages.look_lines(facts)
    results = results or f"results/{make_task(facts, options).name}"
    rows = _choose_rows(look, options, results, dev_share)
    task, numbers = rows.task, rows.numbers
    yield f"metrics: {', '.join(task.metrics)}"
    size, folds = measure_columns(task, rows.columns), None
    if "validation" not in numbers:
        folds = _count_folds(facts.parts["train"].path, size)
    yield from (f"model {name} is left out: {why}" for name, why in look.problems.items())
    yield from map(messages.model_line, models.values())
    for name, model in models.items():
        where = f" of {name}" if len(models) > 1 else ""
        problems = model.problems_by_method(DEFAULTS.methods, task).items()
        yield from (f"method {method}{where} is left out: {why}" for method, why in problems)
    choices, timed = _time_choices(look, rows, options, folds)
    config = _make_config(results, rows, models, timed, choices[0].experiment)
    chosen, times = _choose_in_time(config, choices, look, rows, size, options.minutes)
    drawn = {
        split: draw_rows(task, rows.columns[split], count, numbers[split])
        for split, count in chosen.count_rows(numbers).items()
    }
    if "validation" not in numbers:
        yield from messages.fold_lines(facts, folds or 0, len(chosen.experiment.seeds))
    yield from messages.sample_lines(numbers, drawn, chosen.experiment)
    yield messages.run_line(chosen.experiment)
    [first, *_] = models.values()
    lengths = describe_lengths(look.counts, chosen.experiment.max_length, bool(first.directory))
    usual = choices[0].experiment
    yield from messages.reduction_lines(usual, chosen.experiment, lengths, options.minutes)
    yield from messages.time_lines(first, times, options.minutes)
    if any(len(drawn[split]) < len(numbers[split]) for split in numbers):
        whole = WholeTable(
            str(Path(rows.files["train"]).resolve()),
            len(numbers["train"]),
            task.encoding,
            task.sheet,
        )
        folder = Path(Layout(results).sample())
        rows = rows.write(drawn, folder)
        write_whole_table(folder, whole)
    experiment = add_smaller_floors(chosen.experiment, len(drawn["train"]))
    config = _make_config(results, rows, models, timed, experiment)
    text = _render(config, rows.task, models, timed, target, len(drawn["train"]), lengths)
    with one_line(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


class ChosenRows(NamedTuple):
    """The rows of a task.

    Attributes:
        task: the task.
        files: the file of each split.
        rows: the cells of the labelled rows of each split.
        columns: the columns that the task's kind reads from them.
        numbers: the numbers of the rows of each split that may be used. A drawn dev set has the
            rows of the training table.
    """

    task: Task
    files: dict[str, str]
    rows: dict[str, list[dict[str, Any]]]
    columns: dict[str, Columns]
    numbers: dict[str, np.ndarray]

    def write(self, numbers: Mapping[str, np.ndarray], folder: Path) -> "ChosenRows":
        """Write some rows of each split to new files."""
        files = write_drawn_rows(self.rows, numbers, folder)
        return self._replace(task=self.task.replaced(encoding=None, sheet=None), files=files)


def _choose_rows(look: Look, options: Options, results: str, dev_share: float | None) -> ChosenRows:
    """Return the rows of some tables, with the predictions that the user brings."""
    task = make_task(look.facts, options)
    files = {split: part.path for split, part in look.facts.parts.items()}
    by_split = sources.user_task_files(files, task, may_lack="validation")
    columns = sources.read_columns(task, by_split)
    judging = look.tables[look.facts.judges]
    brought = list_predictions(options.predictions, judging.columns)
    for predictions in brought:
        taken = [system for system, _ in task.predictions]
        joined = join_predictions(predictions, judging.rows, task.kind, task.labels, taken)
        task = task.replaced(
            predictions=(*task.predictions, (joined.system, joined.columns)),
        )
        for name, cells in joined.cells.items():
            for (_, row), cell in zip(judging.rows, cells, strict=True):
                row[name] = cell
    rows = {split: _labelled_rows(table, look.facts) for split, table in look.tables.items()}
    numbers = {split: np.arange(len(cells)) for split, cells in rows.items()}
    if dev_share:
        numbers = draw_dev_set(task, columns["train"], dev_share)
        rows["validation"], columns["validation"] = rows["train"], columns["train"]
    chosen = ChosenRows(task, files, rows, columns, numbers)
    is_new = dev_share or brought
    return chosen.write(numbers, Path(Layout(results).rows())) if is_new else chosen


def _time_choices(
    look: Look, rows: ChosenRows, options: Options, folds: int | None
) -> "tuple[list[Choice], MeasuredPace]":
    """Return settings, the best first, and the pace of this machine."""
    # Importing torch takes seconds.
    from subtune.comparison.pace import measure_pace

    fixed, rates = _choose_methods(look.models, rows.task, options, folds)
    windows = possible_windows(look.counts, min(m.longest_text for m in look.models.values()))
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * 60 * options.minutes)
    [first, *_] = look.models.values()
    timed = measure_pace(first, rows.task, rows.columns["train"], windows[0], rates, seconds)
    fixed["precision"] = timed.precision
    fewest = DEFAULTS.rows_per_class * len(look.facts.parts["train"].labels)
    number = len(rows.numbers["train"])
    return list_choices(number, fewest, windows, rates, fixed, timed.least_batch), timed


def _choose_in_time(
    config: Config,
    choices: Sequence[Choice],
    look: Look,
    rows: ChosenRows,
    size: TaskSize,
    minutes: float,
) -> tuple[Choice, Times | None]:
    """Return the first settings that end in time, or else the last, and their times."""
    for chosen in choices:
        counts = chosen.count_rows(rows.numbers)
        estimated = size.replaced(
            tokens=look.counts.clip(max=chosen.experiment.max_length).mean(),
            train_rows=counts["train"],
            evaluation_rows=sum(counts.values()) - counts["train"],
        )
        config = config.model_copy(update={"experiments": {EXPERIMENT: chosen.experiment}})
        times = estimate_times(config, estimated)
        if times is None or times.all <= 60 * minutes:
            break
    return chosen, times


def _labelled_rows(table: UserTable, facts: Facts) -> list[dict[str, Any]]:
    """Return the rows that tasks read: without those that have no label."""
    rows = table.rows
    if facts.kind != "multilabel":
        rows, _ = drop_unlabelled_rows(rows, *label_names(facts.label))
    return [cells for _, cells in rows]


def _choose_methods(
    models: Mapping[str, StartingModel], task: Task, options: Options, folds: int | None
) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Return the settings that do not depend on time, and the learning rates of each method.

    The methods are those of the first model; another model may have other learning rates.
    """
    rates: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, model in models.items():
        problems = model.problems_by_method(DEFAULTS.methods, task)
        methods = [method for method in DEFAULTS.methods if method not in problems]
        rates[name] = find_learning_rates(methods, model.hidden_size)
    [first, *others] = rates.values()
    shared = {m: tried for m, tried in first.items() if all(m in other for other in others)}
    fixed: dict[str, Any] = {"models": [*models], "tasks": [task.name], "folds": folds}
    fixed["margin"] = options.margin
    by_model = {}
    for name, own in rates.items():
        if differing := {m: tried for m, tried in own.items() if tried != shared.get(m)}:
            by_model[name] = {"methods": {m: write_rates(r) for m, r in differing.items()}}
    fixed["by_model"] = by_model
    if task.of_kind.has_numbers:
        labels = {model.labels for model in models.values()}
        fixed["labels"] = "standard" if labels == {"standard"} else "raw"
    return fixed, shared


def add_smaller_floors(experiment: Experiment, rows: int) -> Experiment:
    """Return an experiment whose floors also train on `DEFAULTS.shares` of the rows.

    Their scores show what more labels would add, at little cost.
    """
    train_rows = rows - (rows // experiment.folds if experiment.folds else 0)
    numbers = tuple(int(share * train_rows) for share in DEFAULTS.shares)
    if min(numbers) < DEFAULTS.fewest_rows_of_share:
        return experiment
    floors = [name for name in experiment.methods if name in DEFAULTS.floors]
    settings = MethodSettings(train_rows=numbers)
    by_method = experiment.by_method | dict.fromkeys(floors, settings)
    return experiment.model_copy(update={"by_method": by_method})


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
        group=options.group,
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
    results: str,
    rows: ChosenRows,
    models: Mapping[str, StartingModel],
    timed: "MeasuredPace",
    experiment: Experiment,
) -> Config:
    """Return the configuration of an experiment."""
    task = rows.task
    settings = task.model_dump(include={*OwnTask.model_fields})
    settings |= {"files": rows.files, "predictions": dict(task.predictions)}
    return check_config(
        {
            "results": results,
            "models": {
                name: {model.source: model.reference, "pooling": model.pooling}
                for name, model in models.items()
            },
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
    models: Mapping[str, StartingModel],
    timed: "MeasuredPace",
    target: Path,
    rows: int,
    lengths: Lengths,
) -> str:
    """Return the text of a configuration, with comments.

    Args:
        config: the configuration.
        task: its task.
        models: its models, by name.
        timed: the pace of this machine.
        target: the path of the configuration.
        rows: the number of rows of the training table that are used.
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
    train_rows = rows - (rows // experiment.folds if experiment.folds else 0)
    others = [name for name in task.of_kind.metrics if name not in task.metrics]
    if task.outputs != 2:
        # F1 is of two classes.
        others = [name for name in others if name != "f1"]
    return environment.get_template("first_configuration.yaml").render(
        config=config,
        name=EXPERIMENT,
        experiment=experiment.model_dump(mode="json"),
        task=task,
        models=models,
        timed=timed,
        target=target,
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
