"""Choose the settings of a first configuration for a user's tables, and write it to a file."""

import math
import shlex
import shutil
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import yaml

from subtune.comparison import DEFAULTS, Options, messages
from subtune.comparison.look import (
    Lengths,
    compute_length_statistics,
    describe_cut_texts,
    look_lines,
)
from subtune.comparison.own_task import (
    ChosenRows,
    TablesAndModels,
    collect_rows,
    count_folds,
    make_task,
    read_tables_and_models,
)
from subtune.comparison.predictions import read_predictions, write_predictions
from subtune.comparison.settings import (
    CandidateSettings,
    Rates,
    StartingModel,
    count_training_rows,
    estimate_seconds,
    list_choices,
    nearest_learning_rates,
)
from subtune.config.checks import check_config
from subtune.config.schema import MARGIN, Config, Experiment, MethodSettings, OwnTask
from subtune.core import process
from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.files import Layout
from subtune.core.gpus import hold_gpu
from subtune.data.sources import measure_columns
from subtune.data.subsets import draw_rows
from subtune.tasks import Task
from subtune.tasks.task import TEST, TaskSize
from subtune.tasks.task_kind import Cells

if TYPE_CHECKING:
    from subtune.comparison.pace import MeasuredPace

# The name of the only experiment. A paper's name would result in the paper's tables.
EXPERIMENT = "mine"
# The template adds a comment at the end of a line, so each value must be on one line.
dump_line: Any = partial(yaml.safe_dump, width=math.inf, sort_keys=False, allow_unicode=True)


def write_first_configuration(
    paths: Mapping[str, Path | None],
    options: Options,
    target: Path,
    results: str | None = None,
    dev_share: float | None = None,
    every_run: bool = False,
) -> Iterator[str]:
    """Write a configuration, and yield lines that describe the tables and the chosen settings.

    If a sample or a dev set is drawn from the tables, the drawn rows are written to new files in
    the results directory.

    Args:
        paths: maps the name of each split to its file; None for a split without a file.
        target: the path of the configuration to write.
        results: the results directory; default: ``results/`` followed by the task's name.
        dev_share: the share of the training set that is drawn as the dev set, or None.
        every_run: whether the configuration has all seeds or folds, and learning-rate searches;
            default: as many as fit into the time limit.

    Raises:
        SubtuneError: a table cannot be used for training, an option cannot be guessed, or the
            configuration cannot be written.
    """
    # Otherwise, samples and predictions of an earlier call would be replaced.
    if target.exists():
        raise SubtuneError(f"--to: cannot write {target}: File exists")
    look = read_tables_and_models(paths, options)
    facts = look.facts
    yield from look_lines(facts)
    task = make_task(facts, options)
    results = results or f"results/{task.name}"
    # Predictions are checked before a drawn dev set is written.
    predictions = read_predictions(options.predictions, look.tables[facts.judges], task)
    rows = collect_rows(look, task, results, dev_share)
    task, numbers = rows.task, rows.numbers
    if dev_share:
        yield from messages.dev_set_lines(numbers, dev_share, task.group)
    yield f"metrics: {', '.join(task.metrics)}"
    size, folds = measure_columns(task, rows.columns), None
    if "validation" not in numbers:
        folds = count_folds(facts.parts["train"].path, size, task.group)
    choices, timed = yield from _list_timed_choices(look, rows, options, folds)
    models = {n: model for n, model in look.models.items() if n not in timed.problems}
    usual = choices[0].experiment
    baselines = options.baselines or {}
    config = _make_config(results, rows, models, timed, usual, baselines)
    chosen, seconds = _choose_in_time(config, choices, look, rows, size, options.minutes)
    drawn = {
        split: draw_rows(task, rows.columns[split], count, numbers[split])
        for split, count in chosen.choose_row_counts(numbers).items()
    }
    experiment, part = chosen.experiment, ""
    if every_run:
        if len(experiment.seeds) < len(usual.seeds):
            unit = "folds" if folds else "seeds"
            part = f" for {len(experiment.seeds)} of {len(usual.seeds)} {unit}"
        if experiment.methods != chosen.with_every_run.methods:
            part += " with the recommended learning rates"
        experiment = chosen.with_every_run
    if folds:
        yield from messages.describe_folds(facts, folds, len(experiment.seeds))
    yield from messages.sample_lines(numbers, drawn, experiment)
    yield messages.format_runs_line(experiment, config.baselines)
    are_counted = facts.lengths.are_counted
    lengths = compute_length_statistics(look.most_tokens, experiment.max_length, are_counted)
    yield from messages.reduction_lines(usual, experiment, lengths, options.minutes)
    yield from messages.time_lines(models.values(), seconds, part, options.minutes)
    rows = _write_rows(rows, drawn, predictions, results)
    experiment = add_learning_curves(experiment, len(drawn["train"]))
    share = float(f"{len(drawn['train']) / len(numbers['train']):.2g}")
    experiment = experiment.model_copy(update={"share_of_rows": share})
    config = _make_config(results, rows, models, timed, experiment, baselines)
    text = _render(config, rows.task, models, timed, target, len(drawn["train"]), lengths)
    with convert_errors(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


def _list_timed_choices(
    look: TablesAndModels, rows: ChosenRows, options: Options, folds: int | None
) -> "Generator[str, None, tuple[list[CandidateSettings], MeasuredPace]]":
    """Measure the training speed of this machine, and list the possible settings.

    The yielded lines describe the models, and the models and methods that are left out.
    """
    # Importing torch takes seconds.
    from subtune.comparison.pace import measure_paces

    models = look.models.items()
    yield from (f"model {name} is left out: {why}" for name, why in look.problems.items())
    yield from (messages.model_line(model) for _, model in models)
    yield from (f"model {name}: {note}" for name, model in models for note in model.notes)
    rates = dict[str, Rates]()
    for name, model in models:
        where = f" of {name}" if len(models) > 1 else ""
        problems = model.problems_by_method(rows.task)
        yield from (f"method {m}{where} is left out: {why}" for m, why in problems.items())
        methods = [method for method in DEFAULTS.methods if method not in problems]
        rates[name] = nearest_learning_rates(methods, model.hidden_size)
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * 60 * options.minutes)
    texts = rows.columns["train"]
    with hold_gpu(process.print_line):
        timed = measure_paces(look.models, rows.task, texts, look.windows[0], rates, seconds)
    yield from (f"model {name} is left out: {why}" for name, why in timed.problems.items())
    own_baselines = dict.fromkeys(options.baselines or ())
    rates = {
        name: {**own, **own_baselines} for name, own in rates.items() if name not in timed.problems
    }
    fixed: dict[str, Any] = {"models": [*rates], "tasks": [rows.task.name], "folds": folds}
    fixed |= {"margin": options.margin or MARGIN, "precision": timed.precision}
    if rows.task.of_kind.has_numbers:
        labels = {look.models[name].choose_label_scale() for name in rates}
        fixed["labels"] = "standard" if labels == {"standard"} else "raw"
    number, classes = len(rows.numbers["train"]), len(look.facts.parts["train"].labels)
    return list_choices(number, classes, look.windows, rates, fixed), timed


def _choose_in_time(
    config: Config,
    choices: Sequence[CandidateSettings],
    look: TablesAndModels,
    rows: ChosenRows,
    size: TaskSize,
    minutes: float,
) -> tuple[CandidateSettings, float | None]:
    """Choose the first settings that fit into the time limit, or the last settings if none fit.

    The estimated seconds may be None. ``size`` is the size of the task if all rows are used.
    """
    for chosen in choices:
        counts = chosen.choose_row_counts(rows.numbers)
        evaluated = sum(counts.values()) - counts["train"]
        reduced_size = size.replace(train_rows=counts["train"], evaluation_rows=evaluated)
        longest = chosen.experiment.max_length
        known = [name for name in config.models if look.models[name].dimensions]
        tokens = {name: look.token_counts[name].clip(max=longest).mean() for name in known}
        seconds = estimate_seconds(config, chosen.experiment, reduced_size, tokens)
        if seconds is None or seconds <= 60 * minutes:
            break
    return chosen, seconds


def _write_rows(
    rows: ChosenRows,
    drawn: Mapping[str, np.ndarray],
    predictions: Mapping[str, Mapping[str, Cells]],
    results: str,
) -> ChosenRows:
    """Write a sample of the rows, if it does not contain all of them, and its predictions."""
    if any(len(drawn[split]) < len(rows.numbers[split]) for split in drawn):
        rows = rows.write(drawn, Path(Layout(results).sample()))
    scored = next(split for split in (TEST, "validation", "train") if split in drawn)
    places = [rows.rows[scored][number][0] for number in drawn[scored]]
    systems = tuple(write_predictions(predictions, places, results).items())
    return rows._replace(task=rows.task.replace(predictions=systems))


def add_learning_curves(experiment: Experiment, rows: int) -> Experiment:
    """Add baselines on parts of the training set, to see whether more labels would help."""
    train_rows = count_training_rows(rows, experiment.folds)
    numbers = tuple(int(share * train_rows) for share in DEFAULTS.shares)
    if min(numbers) < DEFAULTS.fewest_rows_of_share:
        return experiment
    baselines = [name for name in experiment.all_methods if name in DEFAULTS.floors]
    settings = MethodSettings(train_rows=numbers)
    by_method = experiment.by_method | dict.fromkeys(baselines, settings)
    return experiment.model_copy(update={"by_method": by_method})


def _make_config(
    results: str,
    rows: ChosenRows,
    models: Mapping[str, StartingModel],
    timed: "MeasuredPace",
    experiment: Experiment,
    baselines: Mapping[str, Any],
) -> Config:
    task = rows.task
    settings = task.model_dump(include={*OwnTask.model_fields})
    settings |= {"files": rows.files, "predictions": dict(task.predictions)}
    sources = {
        name: {model.source: model.reference, "pooling": model.pooling}
        for name, model in models.items()
    }
    assumed: dict[str, Any] = {"device": timed.device, "start_minutes": DEFAULTS.start_minutes}
    assumed |= {"pace": timed.pace, "pace_by_model": timed.pace_by_model}
    given: dict[str, Any] = {"results": results, "models": sources, "assumptions": assumed}
    given |= {"tasks": {task.name: settings}, "experiments": {EXPERIMENT: experiment}}
    given |= {"baselines": dict(baselines)}
    return check_config(given | {"jobs_at_once": process.count_jobs_at_once()})


def _render(
    config: Config,
    task: Task,
    models: Mapping[str, StartingModel],
    timed: "MeasuredPace",
    target: Path,
    rows: int,
    lengths: Lengths,
) -> str:
    """Render a configuration as YAML with comments. ``rows`` is the number of training rows."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.comparison", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    flow = partial(dump_line, default_flow_style=True)
    environment.filters |= {"quoted": quote_yaml, "flow": flow, "command": format_run_command}
    experiment = config.experiments[EXPERIMENT]
    train_rows = count_training_rows(rows, experiment.folds)
    # The metric `f1` is defined for two classes only.
    hidden = {*task.metrics} if task.outputs == 2 else {*task.metrics, "f1"}
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
        cut_share=describe_cut_texts(lengths),
        other_metrics=[name for name in task.of_kind.metrics if name not in hidden],
        defaults=DEFAULTS,
    )


def format_run_command(target: Path) -> str:
    """Return the shell command that trains the runs of a configuration."""
    program = "subtune" if shutil.which("subtune") else Path(sys.executable).with_name("subtune")
    return shlex.join([str(program), "run", str(target)])


def quote_yaml(text: str) -> str:
    """Format a string as a YAML scalar, with quotation marks only if YAML needs them."""
    if dump_line([text], default_flow_style=True) == f"[{text}]\n":
        return text
    return dump_line(text, default_style='"').rstrip("\n")
