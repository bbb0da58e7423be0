"""The first configuration for a user's tables: the request, the choices, and the file."""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import jinja2
import numpy as np
import yaml

from subtune.comparison import DEFAULTS, messages, settings
from subtune.comparison.estimate import estimate
from subtune.comparison.look import Lengths, Look, describe_lengths, describe_tables
from subtune.comparison.messages import Times
from subtune.comparison.request import Kind, Request
from subtune.comparison.settings import Settings
from subtune.comparison.starting_model import StartingModel, find_starting_model
from subtune.comparison.user_table import (
    LabelColumns,
    Table,
    guess_label_columns,
    guess_text_columns,
    label_names,
    label_order,
    parse_number,
    read_user_table,
)
from subtune.config import check_config, read_config
from subtune.core import machine
from subtune.core.errors import SubtuneError, listed, one_line, one_of
from subtune.core.layout import Layout
from subtune.data import sources
from subtune.data.sources import measure_columns
from subtune.data.table_files import FEW
from subtune.tasks import Task
from subtune.tasks.task import TEST, TaskSize
from subtune.tasks.task_kind import Columns as Rows

# The name of the only experiment. With a paper's name, it would get the paper's tables.
EXPERIMENT = "mine"


class Found(NamedTuple):
    """Tables and the facts about them.

    Attributes:
        read: the tables by split.
        model: the model.
        counts: the number of tokens of each training text.
        look: the facts.
    """

    read: dict[str, Table]
    model: StartingModel
    counts: np.ndarray
    look: Look

    @property
    def paths(self) -> dict[str, str]:
        """Return the path of each split."""
        return {split: str(table.path) for split, table in self.read.items()}

    def lengths(self, max_length: int) -> Lengths:
        """Describe the lengths of the training texts if ``max_length`` tokens are read."""
        return describe_lengths(self.counts, max_length, bool(self.model.directory))


def init(request: Request) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    found = look(request)
    yield from messages.look_lines(found.look)
    task = task_of(request, found)
    columns = sources.read_columns(
        task, sources.user_task_files(found.paths, task, may_lack="validation")
    )
    yield f"metrics: {', '.join(task.metrics)}"
    folds, rows = None, len(columns["train"]["label"])
    if "validation" not in found.paths:
        folds = _most_folds(found, task, columns)
        rows -= rows // folds
        yield from messages.fold_lines(found.look, folds)
    yield messages.model_line(found.model)
    problems = found.model.problems_of(DEFAULTS.methods, task)
    yield from (f"method {method} is left out: {why}" for method, why in problems.items())
    methods = [method for method in DEFAULTS.methods if method not in problems]
    # Importing torch takes seconds.
    from subtune.comparison.pace import measured

    windows = settings.windows(found.counts, found.model.longest_text)
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * 60 * request.minutes)
    timed = measured(found.model, task, columns["train"], windows[0], methods, seconds)
    choices = settings.choices(
        rows, windows, found.model.hidden_size, methods, folds or DEFAULTS.seeds, timed.least_batch
    )
    text_of = partial(configuration_text, task, EXPERIMENT)
    text_of = partial(text_of, request=request, found=found, rows=rows, folds=folds, timed=timed)
    chosen, text, times = _first_in_time(text_of, found, choices, request.minutes)
    yield messages.run_line(chosen, has_folds=folds is not None)
    lengths = found.lengths(chosen.max_length)
    yield from messages.reduction_lines(choices[0], chosen, lengths, request.minutes)
    yield from messages.time_lines(found.model, times, request.minutes)
    target = request.target
    with one_line(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


def next_steps(target: Path) -> Iterator[str]:
    """Yield lines about training a configuration that `init` has written."""
    yield f"{target} contains all of this, with comments on what to change. To train:"
    yield f"    {command(target)}"
    layout = Layout(read_config(target).results)
    answers = layout.summary("answers", "md")
    yield f"The answer is then in {answers}, and everything on one page in {layout.report()}"


def look(request: Request) -> Found:
    """Read the tables of a request and collect facts about them.

    Raises:
        SubtuneError: a table cannot be read, or a column cannot be guessed or is missing.
    """
    if request.kind not in (None, *get_args(Kind)):
        raise SubtuneError(f"kind: {one_of(request.kind, get_args(Kind))}")
    given = {"train": request.train, "validation": request.dev, TEST: request.test}
    read = {
        split: read_user_table(path, request.encoding, request.sheet)
        for split, path in given.items()
        if path
    }
    label = _label_columns(request, read["train"])
    text = tuple(column for column in (request.text, request.text2) if column)
    text = text or guess_text_columns(read["train"], label_names(label))
    _require_columns(read, (*text, *label_names(label)))
    model = find_starting_model(request.model)
    cells = (read["train"].cells(column) for column in text)
    counts, unknown = model.token_counts(
        [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    )
    window = settings.windows(counts, model.longest_text)[0]
    lengths = describe_lengths(counts, window, bool(model.directory), unknown)
    guessed = tuple(n for n in ("text", "label", "sheet", "kind") if getattr(request, n) is None)
    facts = describe_tables(read, text, label, lengths, request.kind, guessed)
    return Found(read, model, counts, facts)


def _label_columns(request: Request, train: Table) -> LabelColumns:
    """Return the label columns, which are named, several with commas in between, or guessed."""
    label = request.label
    if not label:
        return guess_label_columns(train)
    if isinstance(label, str) and "," in label and label not in train.columns:
        label = [name.strip() for name in label.split(",")]
    return label if isinstance(label, str) else tuple(label)


def _require_columns(read: Mapping[str, Table], columns: Sequence[str]) -> None:
    for column in columns:
        for table in read.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")


def task_of(request: Request, found: Found) -> Task:
    """Return the task of some tables.

    Raises:
        SubtuneError: nothing can be learnt from the labels, or the columns do not make a task.
    """
    require_labels(found.look)
    label, kind, parts = found.look.label, found.look.kind, found.look.parts
    train, dev = parts["train"].labels, parts.get("validation", parts["train"]).labels
    words = sorted({*train, *dev}, key=label_order) if isinstance(label, str) else label
    if kind == "classification" and len(words) == 2 and parse_number(words[1]) is None:
        # F1 of two classes is F1 of the last one. The rarer one is the harder to find.
        words = sorted(words, key=lambda word: -train.get(word, 0))
    metrics = DEFAULTS.metrics[kind]
    # Always predicting a class that is most of the rows scores well by accuracy.
    if kind == "classification" and _imbalance(train, len(words)) > DEFAULTS.imbalance:
        metrics = DEFAULTS.metrics["unbalanced"]
    return Task(
        name=request.task,
        title=request.task,
        text=found.look.text,
        label=label,
        labels=None if kind == "regression" else tuple(words),
        kind=kind,
        metrics=tuple(metrics),
        evaluation=("validation", TEST) if TEST in found.read else ("validation",),
        encoding=request.encoding,
        sheet=request.sheet,
    )


def _imbalance(counts: Mapping[str, int], classes: int) -> float:
    """Return how many times its even share of the rows the largest class has."""
    return max(counts.values()) * classes / sum(counts.values())


def _most_folds(found: Found, task: Task, columns: Mapping[str, Rows]) -> int:
    """Return the number of folds that the training rows can be divided into.

    Raises:
        SubtuneError: the rows cannot be divided.
    """
    size = measure_columns(task, columns)
    folds = size.most_folds(DEFAULTS.seeds)
    if folds < 2 and size.scarcest:
        raise SubtuneError(
            f"{found.paths['train']}: found too few {size.scarcest[0]}, expected at least two, one "
            "to train on and one to evaluate on"
        )
    return folds


def _first_in_time(
    text_of: Callable[..., str], found: Found, choices: Sequence[Settings], minutes: float
) -> tuple[Settings, str, Times | None]:
    """Choose the first settings whose runs end within the minutes, or else the last.

    Args:
        text_of: returns the text of a configuration with some settings.
        found: the tables.
        choices: settings, the best first and the quickest last.
        minutes: the time limit.

    Returns:
        The settings, the text of their configuration, and its estimated time.
    """
    sizes: Mapping[str, TaskSize] = {}
    for chosen in choices:
        cut_share = messages.describe_cut_texts(found.lengths(chosen.max_length))
        text = text_of(settings=chosen, cut_share=cut_share)
        tokens = found.counts.clip(max=chosen.max_length).mean()
        checked = check_config(yaml.safe_load(text))
        sizes, times = estimate(checked, found.model, sizes, tokens)
        if times is None or times.all <= 60 * minutes:
            break
    return chosen, text, times


def require_labels(look: Look) -> None:
    """Refuse labels from which nothing can be learnt.

    Raises:
        SubtuneError: many rows have no label, there are too few or too many classes, or most dev
            rows have labels that no training row has.
    """
    names = listed(label_names(look.label))
    for part in look.parts.values():
        # The reader of multi-label rows says more about a cell that it cannot read.
        if names in part.missing and look.kind != "multilabel":
            place = part.missing[names][0].removesuffix(f" of {part.path}")
            raise SubtuneError(
                f"{part.path}: {place}: found no text or number in column {names!r}, expected a "
                f"label in every row, or in all but {FEW:.0%}, which are left out"
            )
    if look.kind != "regression":
        _require_classes(look, names)
        _require_known_labels(look, names)


def _require_classes(look: Look, column: str) -> None:
    """Refuse fewer than two classes, and more classes than can be learnt from the rows."""
    train = look.parts["train"]
    known = [word for word, count in train.labels.items() if count]
    if len(known) < 2:
        found = listed(known) or "none"
        raise SubtuneError(f"{train.path}: found no label but {found}, expected at least two")
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in look.guessed else most
    if len(known) > limit:
        hint = "; if they are classes: --classes" if len(known) <= most else ""
        raise SubtuneError(
            f"--label: found {len(known):,} different labels in {rows:,} rows of column {column!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )


def _require_known_labels(look: Look, column: str) -> None:
    """Refuse dev rows if most of their labels are in no training row."""
    train, dev = look.parts["train"], look.parts.get("validation", look.parts["train"])
    unknown = sorted(word for word, count in dev.labels.items() if not train.labels.get(word))
    if 2 * sum(dev.labels[word] for word in unknown) > sum(dev.labels.values()):
        known = sorted(word for word, count in train.labels.items() if count)
        raise SubtuneError(
            f"{dev.path}: column {column!r}: found {listed(unknown[:5])} in most rows, expected "
            f"labels of {train.path} ({listed(known[:5])})"
        )


def configuration_text(task: Task, experiment: str, **values: Any) -> str:
    """Return the text of a configuration.

    Args:
        task: the task of the tables.
        experiment: the name of the experiment.
        values: other variables of the template ``first_configuration.yaml``.
    """
    others = [name for name in task.of_kind.metrics if name not in task.metrics]
    if task.outputs != 2:
        # F1 is of two classes.
        others = [name for name in others if name != "f1"]
    return _template().render(
        values,
        task=task,
        other_metrics=others,
        at_once=machine.count_jobs_at_once(),
        experiment=experiment,
        defaults=DEFAULTS,
    )


def command(target: Path) -> str:
    """Return the command that trains a configuration."""
    program = "subtune"
    if not shutil.which(program):
        program = str(Path(sys.executable).with_name(program))
    return shlex.join([program, "run", str(target)])


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.comparison", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"quoted": quoted, "rates": _rates, "command": command}
    return environment.get_template("first_configuration.yaml")


def quoted(text: str) -> str:
    """Return a text as YAML, in quotation marks if YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written
