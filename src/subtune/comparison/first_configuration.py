"""The first configuration for a user's tables: the request, the choices, and the file."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import jinja2
import numpy as np
import yaml

from subtune.comparison import DEFAULTS, Kind, Request, messages
from subtune.comparison.look import (
    Facts,
    Lengths,
    describe_lengths,
    describe_tables,
    require_labels,
)
from subtune.comparison.settings import (
    Settings,
    StartingModel,
    Times,
    estimate_times,
    find_starting_model,
    list_settings,
    possible_windows,
)
from subtune.comparison.user_table import (
    LabelColumns,
    UserTable,
    guess_label_columns,
    guess_text_columns,
    label_names,
    label_order,
    parse_number,
    read_user_table,
)
from subtune.config.checks import check_config, read_config
from subtune.core import process
from subtune.core.errors import SubtuneError, one_line, one_of
from subtune.core.files import Layout
from subtune.data import sources
from subtune.data.sources import measure_columns
from subtune.tasks import Task
from subtune.tasks.task import TEST, TaskSize

if TYPE_CHECKING:
    from subtune.comparison.pace import MeasuredPace

# The name of the only experiment. With a paper's name, it would get the paper's tables.
EXPERIMENT = "mine"


class Findings(NamedTuple):
    """A user's tables, a model for them, and the facts about both.

    Attributes:
        tables: the tables by split.
        model: the model.
        counts: the number of tokens of each training text.
        facts: the facts.
    """

    tables: dict[str, UserTable]
    model: StartingModel
    counts: np.ndarray
    facts: Facts

    @property
    def paths(self) -> dict[str, str]:
        """The path of each split."""
        return {split: str(table.path) for split, table in self.tables.items()}

    def lengths(self, max_length: int) -> Lengths:
        """Describe the lengths of the training texts if ``max_length`` tokens are read."""
        return describe_lengths(self.counts, max_length, bool(self.model.directory))


def look_at_tables(request: Request) -> Findings:
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
    for column in (*text, *label_names(label)):
        for table in read.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")
    model = find_starting_model(request.model)
    cells = (read["train"].cells(column) for column in text)
    counts, unknown = model.token_counts(
        [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    )
    window = possible_windows(counts, model.longest_text)[0]
    lengths = describe_lengths(counts, window, bool(model.directory), unknown)
    guessed = tuple(n for n in ("text", "label", "sheet", "kind") if getattr(request, n) is None)
    facts = describe_tables(read, text, label, lengths, request.kind, guessed)
    return Findings(read, model, counts, facts)


def _label_columns(request: Request, train: UserTable) -> LabelColumns:
    """Return the label columns, which are named, several with commas in between, or guessed."""
    label = request.label
    if not label:
        return guess_label_columns(train)
    if isinstance(label, str) and "," in label and label not in train.columns:
        label = [name.strip() for name in label.split(",")]
    return label if isinstance(label, str) else tuple(label)


@dataclass(frozen=True)
class Draft:
    """A configuration without the settings of its experiment.

    Attributes:
        request: the user's options.
        findings: the tables, and the facts about them.
        task: the task of the tables.
        size: the size of the task.
        rows: the number of rows on which a run can train.
        folds: the number of folds, or None if there are dev rows.
        timed: the pace of this machine.
    """

    request: Request
    findings: Findings
    task: Task
    size: TaskSize
    rows: int
    folds: int | None
    timed: "MeasuredPace"

    def text(self, chosen: Settings) -> str:
        """Return the text of the configuration with some settings."""
        others = [name for name in self.task.of_kind.metrics if name not in self.task.metrics]
        if self.task.outputs != 2:
            # F1 is of two classes.
            others = [name for name in others if name != "f1"]
        return _template().render(
            vars(self),
            settings=chosen,
            cut_share=messages.describe_cut_texts(self.findings.lengths(chosen.max_length)),
            other_metrics=others,
            at_once=process.count_jobs_at_once(),
            experiment=EXPERIMENT,
            defaults=DEFAULTS,
        )


def write_first_configuration(request: Request) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    findings = look_at_tables(request)
    yield from messages.look_lines(findings.facts)
    task, model = make_task(request, findings), findings.model
    paths = sources.user_task_files(findings.paths, task, may_lack="validation")
    columns = sources.read_columns(task, paths)
    yield f"metrics: {', '.join(task.metrics)}"
    size = measure_columns(task, columns)
    folds, rows = None, size.train_rows
    if "validation" not in findings.paths:
        folds = _count_folds(findings, size)
        rows -= rows // folds
        yield from messages.fold_lines(findings.facts, folds)
    yield messages.model_line(model)
    problems = model.problems_by_method(DEFAULTS.methods, task)
    yield from (f"method {method} is left out: {why}" for method, why in problems.items())
    methods = [method for method in DEFAULTS.methods if method not in problems]
    # Importing torch takes seconds.
    from subtune.comparison.pace import measure_pace

    windows = possible_windows(findings.counts, model.longest_text)
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * 60 * request.minutes)
    timed = measure_pace(model, task, columns["train"], windows[0], methods, seconds)
    seeds = folds or DEFAULTS.seeds
    choices = list_settings(rows, windows, model.hidden_size, methods, seeds, timed.least_batch)
    draft = Draft(request, findings, task, size, rows, folds, timed)
    chosen, text, times = _choose_settings(draft, choices)
    yield messages.run_line(chosen, has_folds=folds is not None)
    lengths = findings.lengths(chosen.max_length)
    yield from messages.reduction_lines(choices[0], chosen, lengths, request.minutes)
    yield from messages.time_lines(model, times, request.minutes)
    target = request.target
    with one_line(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


def next_steps(target: Path) -> Iterator[str]:
    """Yield lines about training a configuration that `init` has written."""
    yield f"{target} contains all of this, with comments on what to change. To train:"
    yield f"    {run_command(target)}"
    layout = Layout(read_config(target).results)
    answers = layout.summary("answers", "md")
    yield f"The answer is then in {answers}, and everything on one page in {layout.report()}"


def make_task(request: Request, findings: Findings) -> Task:
    """Return the task of some tables.

    Raises:
        SubtuneError: nothing can be learnt from the labels, or the columns do not make a task.
    """
    require_labels(findings.facts)
    label, kind, parts = findings.facts.label, findings.facts.kind, findings.facts.parts
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
    return Task(
        name=request.task,
        title=request.task,
        text=findings.facts.text,
        label=label,
        labels=None if kind == "regression" else tuple(words),
        kind=kind,
        metrics=tuple(metrics),
        evaluation=("validation", TEST) if TEST in findings.tables else ("validation",),
        encoding=request.encoding,
        sheet=request.sheet,
    )


def _count_folds(findings: Findings, size: TaskSize) -> int:
    """Return the number of folds that the training rows can be divided into.

    Raises:
        SubtuneError: the rows cannot be divided.
    """
    folds = size.most_folds(DEFAULTS.seeds)
    if folds < 2 and size.scarcest:
        raise SubtuneError(
            f"{findings.paths['train']}: found too few {size.scarcest[0]}, expected at least two, "
            "one to train on and one to evaluate on"
        )
    return folds


def _choose_settings(
    draft: Draft, choices: Sequence[Settings]
) -> tuple[Settings, str, Times | None]:
    """Choose the first settings whose runs end within the user's minutes, or else the last.

    Args:
        draft: the configuration without settings.
        choices: settings, the best first and the quickest last.

    Returns:
        The settings, the text of their configuration, and its estimated time.
    """
    for chosen in choices:
        text = draft.text(chosen)
        tokens = draft.findings.counts.clip(max=chosen.max_length).mean()
        size = draft.size.replaced(tokens=tokens)
        checked = check_config(yaml.safe_load(text))
        times = estimate_times(checked, draft.findings.model, draft.task, size)
        if times is None or times.all <= 60 * draft.request.minutes:
            break
    return chosen, text, times


def run_command(target: Path) -> str:
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
    environment.filters |= {"quoted": quote_yaml, "rates": _write_rates, "command": run_command}
    return environment.get_template("first_configuration.yaml")


def quote_yaml(text: str) -> str:
    """Return a text as YAML, in quotation marks if YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _write_rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written
