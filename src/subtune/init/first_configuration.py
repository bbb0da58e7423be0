"""The first configuration for a user's tables: the request, the choices, and the text."""

import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import jinja2
import numpy as np
import yaml

from subtune import config
from subtune.config import Config
from subtune.config.schema import MARGIN
from subtune.core.errors import SubtuneError, listed, one_line, one_of
from subtune.core.layout import Layout
from subtune.data import files
from subtune.data.sources import size_of_columns
from subtune.init import DEFAULTS, messages, settings, tables
from subtune.init.look import (
    Kind,
    Look,
    lengths_of,
    look_at,
    names_of,
    order,
    require_labels,
)
from subtune.init.messages import Times
from subtune.init.settings import StartingModel, model_called
from subtune.init.tables import Columns, Table, task_named_after
from subtune.models.files import lacks_pooler
from subtune.planning.cost import Estimates
from subtune.planning.plan import plan
from subtune.tasks import Task
from subtune.tasks.task import TEST, TaskSize

# A plan needs a commit of each model on the hub. For an estimate any commit will do.
SOME_COMMIT = "0" * 40
# Seconds of the jobs that do not train (tokens, tables, figures), on two cores of a laptop.
OTHER_SECONDS = 25
# Minutes until a job trains.
START_MINUTES = 0.03
# The name of the only experiment. With a paper's name, it would get the paper's tables.
EXPERIMENT = "mine"


class Request(NamedTuple):
    """The options of `subtune init`. Options that are None are guessed.

    ``kind``: kind of task. ``model``: a directory, a package, or a repository on the hub.
    ``minutes``: the time for training and tables on this machine. ``to``: path of the
    configuration. ``sheet``: the sheet of Excel files. ``merge_labels``: whether to merge labels
    that differ only in capitals or invisible characters. ``margin``: the acceptable loss of score.
    ``results``: directory of the results.
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


class Found(NamedTuple):
    """Tables by split, and the facts about them. ``counts``: tokens of the training texts."""

    read: dict[str, Table]
    model: StartingModel
    counts: np.ndarray
    look: Look

    @property
    def paths(self) -> dict[str, str]:
        """Return the path of each split."""
        return {split: str(table.path) for split, table in self.read.items()}


def init(request: Request) -> Iterator[str]:
    """Write a configuration, and yield lines about the tables and the choices.

    Raises:
        SubtuneError: a table cannot be trained on, something cannot be guessed, or the
            configuration cannot be written.
    """
    require_between("minutes", request.minutes)
    require_between("margin", request.margin, 1)
    found = look(request)
    yield from messages.look_lines(found.look)
    task = task_of(request, found)
    paths, model, parts = found.paths, found.model, found.look.parts
    columns = files.columns_of(task, files.own_paths(paths, task, may_lack="validation"))
    yield f"metrics: {', '.join(task.metrics)}"
    folds, rows = None, len(columns["train"]["label"])
    if "validation" not in paths:
        size = size_of_columns(task, columns)
        folds = size.most_folds(DEFAULTS.seeds)
        if folds < 2 and size.scarcest:
            raise SubtuneError(
                f"{paths['train']}: found too few {size.scarcest[0]}, expected at "
                "least two, one to train on and one to evaluate on"
            )
        rows -= rows // folds
        judged = f"each row is predicted once, by one of {folds} runs that did not train on it"
        if TEST in paths:
            judged = f"one of {folds} folds chooses each run's epoch, and test rows give the scores"
        yield f"no dev rows: {judged}; --dev names some"
        counts = parts["train"].labels
        if few := [messages.shown(word) for word in counts if counts[word] < folds]:
            rare = listed(few, messages.NAMED, "and")
            can = "some folds have none of them, which can lower F1 and Matthews correlation"
            yield f"labels with fewer rows than folds: {rare}; {can}"

    yield messages.model_line(model)
    problems = model.problems_of(DEFAULTS.methods, task)
    methods = [method for method in DEFAULTS.methods if method not in problems]
    yield from (f"method {method} is left out: {why}" for method, why in problems.items())
    # Importing torch takes seconds.
    from subtune.init.pace import measured

    at_once = settings.count_jobs_at_once()
    windows = settings.windows(found.counts, model.longest_text)
    asked = 60 * request.minutes
    seconds = min(DEFAULTS.timing["seconds"], DEFAULTS.timing["share"] * asked)
    timed = measured(model, task, columns["train"], windows[0], methods, seconds)
    seeds, target = folds or DEFAULTS.seeds, request.target
    choices = settings.choices(rows, windows, model.hidden_size, methods, seeds, timed.least_batch)
    other_metrics = [metric for metric in task.of_kind.metrics if metric not in task.metrics]
    sizes: Mapping[str, TaskSize] = {}
    for chosen in choices:
        lengths = lengths_of(found.counts, chosen.max_length, bool(model.directory))
        text = _template().render(
            request=request,
            files=paths,
            task=task,
            other_metrics=[m for m in other_metrics if m != "f1" or task.outputs == 2],
            model=model,
            lacks_pooler=model.directory and lacks_pooler(model.directory),
            settings=chosen,
            steps=-(-chosen.train_rows // chosen.batch_size) * chosen.epochs,
            rows=rows,
            folds=folds,
            searches=any(len(rates) > 1 for rates in chosen.methods.values()),
            cut_share=messages.share_read(lengths),
            at_once=at_once,
            timed=timed,
            start_minutes=START_MINUTES,
            command=_command(target),
            experiment=EXPERIMENT,
            defaults=DEFAULTS,
        )
        tokens = found.counts.clip(max=chosen.max_length).mean()
        checked = config.check(yaml.safe_load(text))
        sizes, times = _estimate(checked, model, sizes, tokens, at_once)
        if times is None or times.all <= asked:
            break
    yield messages.run_line(chosen, has_folds=folds is not None)
    yield from messages.time_lines(choices[0], chosen, lengths, model, times, request.minutes)
    with one_line(f"--to: cannot write {target}"), target.open("x", encoding="utf-8") as file:
        file.write(text)


def next_steps(target: Path) -> Iterator[str]:
    """Yield lines about training a configuration that `init` has written."""
    yield f"{target} contains all of this, with comments on what to change. To train:"
    yield f"    {_command(target)}"
    layout = Layout(config.read(target).results)
    answers = layout.summary("answers", "md")
    yield f"The answer is then in {answers}, and everything on one page in {layout.report()}"


def require_between(option: str, number: float, below: float = math.inf) -> None:
    """Raise a `SubtuneError` if the number of an option is not between 0 and ``below``."""
    if not 0 < number < below:
        score = f"a score between 0 and {below}, such as {MARGIN}"
        expected = "a positive number" if below == math.inf else score
        raise SubtuneError(f"--{option}: found {number:g}, expected {expected}")


def look(request: Request) -> Found:
    """Read the tables of a request and collect facts about them.

    Raises:
        SubtuneError: a table cannot be read, or a column cannot be guessed or is missing.
    """
    if request.kind not in (None, *get_args(Kind)):
        raise SubtuneError(f"kind: {one_of(request.kind, get_args(Kind))}")
    given = {"train": request.train, "validation": request.dev, TEST: request.test}
    read = {
        split: tables.read(path, request.encoding, request.sheet)
        for split, path in given.items()
        if path
    }
    # A link gives the training file another name.
    if len({table.path.resolve() for table in read.values()}) < len(read):
        found = ", ".join(str(table.path) for table in read.values())
        raise SubtuneError(f"--train, --dev, --test: found {found}, expected different files")
    text, label = _columns(request, read)
    model = model_called(request.model)
    cells = (read["train"].cells(column) for column in text)
    counts, unknown = model.token_counts(
        [tuple(str(cell or "") for cell in row) for row in zip(*cells, strict=True)]
    )
    window = settings.windows(counts, model.longest_text)[0]
    lengths = lengths_of(counts, window, bool(model.directory), unknown)
    guessed = tuple(n for n in ("text", "label", "sheet", "kind") if getattr(request, n) is None)
    options = request.kind, guessed, request.merge_labels
    facts = look_at(read, text, label, lengths, *options)
    return Found(read, model, counts, facts)


def _columns(request: Request, read: Mapping[str, Table]) -> tuple[tuple[str, ...], Columns]:
    """Return the text columns and the label columns, which are named or guessed."""
    train, label = read["train"], request.label
    if isinstance(label, str) and "," in label and label not in train.columns:
        label = [*map(str.strip, label.split(","))]
    if not isinstance(label, str):
        label = tuple(label) if label else tables.label_columns(train)
    names = names_of(label)
    text = tuple(filter(None, (request.text, request.text2))) or tables.text_columns(train, names)
    for column in (*text, *names):
        for table in read.values():
            if column not in table.columns:
                known = one_of(column, table.columns)
                raise SubtuneError(f"{table.path}: no such column: {known}")
    return text, label


def task_of(request: Request, found: Found) -> Task:
    """Return the task of some tables.

    Raises:
        SubtuneError: nothing can be learnt from the labels, or the columns do not make a task.
    """
    require_labels(found.read, found.look)
    label, kind, parts = found.look.label, found.look.kind, found.look.parts
    train, dev = parts["train"].labels, parts.get("validation", parts["train"]).labels
    words = sorted({*train, *dev}, key=order) if isinstance(label, str) else label
    if kind == "classification" and len(words) == 2 and tables.number_in(words[1]) is None:
        # F1 of two classes is F1 of the last one. The rarer one is the harder to find.
        words = sorted(words, key=lambda word: -train.get(word, 0))
    # Always predicting the largest class scores well by accuracy.
    is_unbalanced = kind == "classification" and max(train.values()) * len(
        words
    ) > DEFAULTS.imbalance * sum(train.values())
    return Task(
        name=request.task,
        title=request.task,
        text=found.look.text,
        label=label,
        labels=None if kind == "regression" else tuple(words),
        kind=kind,
        metrics=tuple(DEFAULTS.metrics["unbalanced" if is_unbalanced else kind]),
        evaluation=("validation", TEST) if TEST in found.read else ("validation",),
        encoding=request.encoding,
        sheet=request.sheet,
        merge_labels=request.merge_labels,
    )


def _estimate(
    checked: Config,
    model: StartingModel,
    sizes: Mapping[str, TaskSize],
    tokens: float,
    at_once: int,
) -> tuple[Mapping[str, TaskSize], Times | None]:
    """Return the tasks' sizes and the time here (None if the model's size is unknown).

    The hub is not asked.

    Args:
        sizes: sizes from an earlier estimate, which are used again.
        tokens: the mean number of tokens of a text.
    """
    source = checked.models[model.name]
    if source.hub:
        # The model's pooling is not known, and hardly changes the estimate.
        update = {"revision": SOME_COMMIT, "pooling": source.pooling or "first"}
        source = source.model_copy(update=update)
    checked = checked.model_copy(update={"models": {model.name: source}})
    planned = plan(checked, sizes)
    planned.sizes = {key: size.replaced(tokens=tokens) for key, size in planned.sizes.items()}
    estimates = Estimates(checked, planned)
    if estimates.unknown_models:
        return planned.sizes, None
    seconds = [estimates.sweep(sweep).seconds for sweep in planned.sweeps]
    seconds += [estimates.search_job(job).seconds for job in planned.search_jobs]
    # The reference alone, and the regression on embeddings.
    first = max(estimates.run(run).seconds for run in planned.runs)
    return planned.sizes, Times(
        all=max(sum(seconds) / at_once, *seconds) + OTHER_SECONDS, first=first + OTHER_SECONDS
    )


def _command(target: Path) -> str:
    """Return the command that, called in this folder, trains a configuration."""
    name = "subtune"
    program = name if shutil.which(name) else str(Path(sys.executable).with_name(name))
    return shlex.join([program, "run", str(target)])


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
    """Return a text as YAML, in quotation marks if YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written
