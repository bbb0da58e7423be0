"""The first configuration for someone's tables, its text, and the lines that explain it."""

import contextlib
import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import yaml

from subtune import config
from subtune.config import Config
from subtune.config.schema import MARGIN, Assumptions
from subtune.core.errors import SubtuneError, one_of
from subtune.core.layout import Layout
from subtune.data import files
from subtune.data.sources import size_of_columns
from subtune.init import choosing, messages, tables
from subtune.init import look as looks
from subtune.init.choosing import Settings
from subtune.init.defaults import DEFAULTS
from subtune.init.labels import (
    Columns,
    Kind,
    Labels,
    columns_of,
    f1_of_the_same_labels,
    labels_of,
    names_of,
)
from subtune.init.look import Look
from subtune.init.models import StartingModel, model_called, without_parameters
from subtune.init.tables import Table, task_named_after
from subtune.planning.cost import Estimates
from subtune.planning.plan import Plan, plan
from subtune.tasks import Task
from subtune.tasks.task import TEST, TaskSize

# A plan needs a commit of every model on the hub. An estimate can use any, without a network.
SOME_COMMIT = "0" * 40
# Seconds of the jobs that do not train (tokens, tables, figures), on two cores of a laptop.
OTHER_SECONDS = 25
# Name of the only experiment. The name of a paper would make the paper's tables.
EXPERIMENT = "mine"
# A product in bf16 is so many times as fast as in fp32, at least, where hardware multiplies bf16.
NATIVE = 1.3


class Request(NamedTuple):
    """The options of `subtune init`. Those that are None are guessed.

    ``kind``: kind of task. ``model``: a directory, a package, or a repository on the hub.
    ``minutes``: training and tables may take so long here. ``to``: path of the configuration.
    ``sheet``: of Excel files. ``merge_labels``: make those that differ in capitals alone one.
    ``margin``: the score that one can afford to lose. ``results``: directory of the results.
    """

    train: Path
    dev: Path | None = None
    test: Path | None = None
    text: str | None = None
    text2: str | None = None
    label: str | Sequence[str] | None = None
    kind: Kind | None = None
    model: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    merge_labels: bool = False
    minutes: float = 10
    margin: float = MARGIN
    to: Path | None = None
    results: str | None = None

    @property
    def task(self) -> str:
        """Return the task's name."""
        return task_named_after(self.train)

    @property
    def target(self) -> Path:
        """Return the path of the configuration."""
        return self.to or Path(f"{self.task}.yaml")


def init(request: Request) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices made for them.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    name, target = request.task, request.target
    minutes, margin = number_of("minutes", request.minutes), number_of("margin", request.margin, 1)
    found = look(request)
    yield from looks.lines(found.look)
    paths, read, model, counts = found[:4]
    train, dev = read["train"], read.get("validation")
    # Columns that the look has guessed need no second guess.
    text, text2 = (*found.look.text, None)[:2]
    named = request._replace(text=text, text2=text2, label=found.look.label)
    task, labels = task_of(named, read)
    may_lack = "" if dev else "validation"
    columns = files.columns_of(task, files.own_paths(paths, task, may_lack))
    yield f"metrics: {', '.join(labels.metrics)}"
    if labels.kind == "multilabel":
        score = f1_of_the_same_labels(labels)
        yield f"always answering the same labels has an f1_micro of at most {score:.2f}"
    folds, rows = None, len(columns["train"]["label"])
    if dev is None:
        folds = _folds(train, size_of_columns(task, columns))
        rows -= rows // folds
        judged = f"each row is judged once, by one of {folds} runs that have not seen it"
        if TEST in read:
            judged = f"one of {folds} folds chooses each run's epoch, and the test rows judge"
        yield f"no dev rows: {judged}; --dev names some"

    yield messages.of_model(model)
    problems = without_parameters(model, task, DEFAULTS.methods)
    methods = [method for method in DEFAULTS.methods if method not in problems]
    yield from (f"method {method} is left out: {why}" for method, why in problems.items())
    # Importing torch takes seconds.
    from subtune.init import machine_speed

    at_once, speed = machine_speed.count_jobs_at_once(), machine_speed.estimate_speed()
    seeds = folds or DEFAULTS.seeds
    choices = [*choosing.choices(rows, found.windows, model.hidden_size, methods, seeds)]
    sizes: Mapping[str, TaskSize] = {}
    for settings in choices:
        lengths = looks.lengths_of(counts, settings.max_length, found.look.lengths.are_counted)
        content = text_of(
            task,
            settings,
            speed,
            command=_command(target),
            results=request.results or f"results/{name}",
            files=paths,
            model=model,
            rows=rows,
            folds=folds,
            cut_share=looks.what_is_read(lengths),
            at_once=at_once,
            margin=margin,
        )
        checked = config.check(yaml.safe_load(content))
        offline = _offline(checked, model)
        planned = plan(offline, sizes)
        sizes, seconds = planned.sizes, _seconds(Estimates(offline, planned), planned, at_once)
        if seconds is None or seconds <= 60 * minutes:
            break
    yield messages.of_runs(settings)
    yield from messages.of_shorter(choices[0], settings, lengths, minutes)
    yield from messages.of_time(seconds, model, minutes)
    write(target, content)


class Found(NamedTuple):
    """Tables of some splits, their paths, and a look at them.

    ``counts``: tokens of training texts. ``windows``: those to try, from the longest.
    """

    paths: dict[str, str]
    read: dict[str, Table]
    model: StartingModel
    counts: np.ndarray
    windows: list[int]
    look: Look


def look(request: Request) -> Found:
    """Read the tables of a request and look at them.

    Raises:
        SubtuneError: a table cannot be read, or a column cannot be guessed or is missing.
    """
    given = {"train": request.train, "validation": request.dev, TEST: request.test}
    paths = {split: str(path) for split, path in given.items() if path}
    read = {
        split: tables.read(Path(path), request.encoding, request.sheet)
        for split, path in paths.items()
    }
    # A link to the training file has another name.
    if len({path.resolve() for path in map(Path, paths.values())}) < len(paths):
        found = ", ".join(paths.values())
        raise SubtuneError(f"--train, --dev, --test: found {found}, expected different files")
    text, label = column_names(request, read)
    guessed = tuple(n for n in ("text", "label", "sheet") if getattr(request, n) is None)
    model = model_called(request.model)
    cells = (read["train"].cells(column) for column in text)
    texts = [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    counts = choosing.token_counts(texts, model.directory)
    windows = choosing.windows(counts, model.longest_text)
    lengths = looks.lengths_of(counts, windows[0], choosing.has_tokenizer(model.directory))
    options = request.kind, guessed, request.merge_labels
    seen = looks.look_at(read, text, label, lengths, *options)
    return Found(paths, read, model, counts, windows, seen)


def number_of(option: str, given: object, below: float = math.inf) -> float:
    """Return the number of an option.

    Raises:
        SubtuneError: it is no number between 0 and ``below``.
    """
    with contextlib.suppress(TypeError, ValueError):
        if 0 < (number := float(given)) < below:  # type: ignore[arg-type]
            return number
    score = f"a score between 0 and {below}, such as {MARGIN}"
    expected = "a positive number" if below == math.inf else score
    raise SubtuneError(f"--{option}: found {given}, expected {expected}")


def next_steps(target: Path) -> Iterator[str]:
    """Yield lines about training a configuration that `init` has written."""
    yield f"{target} contains all of this, with comments on what to change. To train:"
    yield f"    {_command(target)}"
    layout = Layout(config.read(target).results)
    answers = layout.of_all_experiments("answers", "md")
    yield f"The answer is then in {answers}, and everything on one page in {layout.report()}"


def task_of(request: Request, read: Mapping[str, Table]) -> tuple[Task, Labels]:
    """Return the task of some tables, by split, and their labels. Guess what is not named.

    Raises:
        SubtuneError: something cannot be guessed, or a column or a label is missing.
    """
    train, dev = read["train"], read.get("validation")
    text, label = column_names(request, read)
    labels = labels_of(train, dev, label, request.kind, request.merge_labels)
    task = Task(
        name=request.task,
        title=request.task,
        text=text,
        label=label,
        labels=labels.words,
        kind=labels.kind,
        metrics=labels.metrics,
        evaluation=("validation", TEST) if TEST in read else ("validation",),
        encoding=request.encoding,
        sheet=request.sheet,
        merge_labels=request.merge_labels,
    )
    return task, labels


def column_names(request: Request, read: Mapping[str, Table]) -> tuple[tuple[str, ...], Columns]:
    """Return the columns of the text and the label of some tables, by split.

    Raises:
        SubtuneError: one cannot be guessed, or is missing.
    """
    train = read["train"]
    label = columns_of(train, request.label)
    one, *others = names_of(label)
    without = train._replace(columns=tuple(c for c in train.columns if c not in others))
    text = tuple(filter(None, (request.text, request.text2))) or tables.text_columns(without, one)
    for column in (*text, one, *others):
        for table in read.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")
    return text, label


def _folds(train: Table, size: TaskSize) -> int:
    """Return the number of folds of the training rows.

    Raises:
        SubtuneError: they cannot be divided.
    """
    folds = size.most_folds(DEFAULTS.seeds)
    if folds < 2 and size.scarcest:
        raise SubtuneError(
            f"{train.path}: found too few {size.scarcest[0]}, expected at least two, one to train "
            "on and one to judge by"
        )
    return folds


def _offline(checked: Config, model: StartingModel) -> Config:
    """Return a configuration that is planned without a request to the hub."""
    source = checked.models[model.name]
    if source.hub:
        # Its own pooling is not known, and changes an estimate little.
        update = {"revision": SOME_COMMIT, "pooling": source.pooling or "first"}
        source = source.model_copy(update=update)
    return checked.model_copy(update={"models": {model.name: source}})


def _seconds(estimates: Estimates, planned: Plan, at_once: int) -> float | None:
    """Return the estimated time here; None if the model's size is unknown."""
    if estimates.unknown_models:
        return None
    jobs = [estimates.sweep(sweep).seconds for sweep in planned.sweeps]
    return max(sum(jobs) / at_once, *jobs) + OTHER_SECONDS


def _command(target: Path) -> str:
    """Return the command that trains a configuration when it is called in this folder."""
    name = "subtune"
    program = name if shutil.which(name) else str(Path(sys.executable).with_name(name))
    return shlex.join([program, "run", str(target)])


def text_of(task: Task, settings: Settings, assumptions: Assumptions, **others: Any) -> str:
    """Return the whole file, from the template beside this module.

    Args:
        assumptions: estimated speed of this machine.
        others: the template's ``command`` (which trains it), ``results`` (their directory),
            ``files`` (path of each split), ``model`` (as `subtune.init.models` returns it),
            ``rows`` (that a run can train on), ``folds`` (None with dev rows), ``cut_share`` (of
            the texts, in words), ``at_once`` (jobs that train at the same time), ``margin`` (of the
            answer).
    """
    metrics = [metric for metric in task.of_kind.metrics if metric not in task.metrics]
    teraflops = assumptions.teraflops
    return _template().render(
        others,
        task=task,
        settings=settings,
        assumptions=assumptions,
        steps=-(-settings.train_rows // settings.batch_size) * settings.epochs,
        other_metrics=[m for m in metrics if m != "f1" or task.outputs == 2],
        experiment=EXPERIMENT,
        precision="bf16" if teraflops["bf16"] > NATIVE * teraflops["fp32"] else "fp32",
        defaults=DEFAULTS,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.init", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"quoted": quoted, "rates": _rates}
    return environment.get_template("first_configuration.yaml")


def quoted(text: str) -> str:
    """Return a text as YAML, in quotation marks where YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written


def write(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        SubtuneError: the file exists, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = (error.strerror or "cannot be written").lower()
        raise SubtuneError(f"--to: cannot write {path}: {reason}") from None
