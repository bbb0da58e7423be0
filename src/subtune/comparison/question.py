"""`subtune.compare`: compare fine-tuning methods on a user's data, within a time limit."""

import contextlib
import fcntl
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from subtune.comparison import Options, loop, with_options
from subtune.comparison.first_configuration import EXPERIMENT, dump_line, write_first_configuration
from subtune.comparison.predictions import read_predictions, write_predictions
from subtune.comparison.results import CONFIGURATION, Comparison
from subtune.comparison.splits import (
    Rows,
    Split,
    column_names,
    find_splits,
    name_arguments,
    name_options_in_errors,
    task_name,
    write_splits,
)
from subtune.comparison.user_table import read_user_table
from subtune.comparison.workers import Workers
from subtune.config.checks import read_config
from subtune.config.schema import MARGIN, Config
from subtune.core.errors import (
    SubtuneError,
    convert_errors,
    format_allowed,
    join_names,
    locate_errors,
)
from subtune.core.files import Layout, hash_text, remove_old_drafts, write_text
from subtune.core.ids import content_id
from subtune.core.process import end_late_process
from subtune.core.user_code import require_no_import
from subtune.data.sources import task_reader
from subtune.data.table_files import is_directory
from subtune.methods.baselines import describe_baselines
from subtune.plan.inputs import scored_file
from subtune.steps.context import plan_and_check

# The name of the file in the results directory that describes the call.
ASKED = "comparison.json"
# The message if reading tables and measuring the machine took all of the time.
OUT_OF_TIME = (
    "--minutes: the time ran out before training began; run the comparison again with more minutes"
)
Say = Callable[[str], object]


class ComparisonRequest(NamedTuple):
    """The normalised arguments of a call to `compare`, and the task's name.

    ``dev_share`` is the share of the training set that is drawn as the dev set, if any.
    """

    name: str
    splits: dict[str, Split]
    options: Options
    dev_share: float | None

    @property
    def identity(self) -> dict[str, Any]:
        """The arguments on which the runs depend. Other values need another results directory."""
        chosen = vars(self.options) | {"dev": self.dev_share}
        # A later call may change the time limit, the margin and the predictions.
        del chosen["minutes"], chosen["margin"], chosen["predictions"]
        given = {name: value for name, value in chosen.items() if value is not None}
        return {split: rows.identity for split, rows in self.splits.items()} | given


@with_options
def compare(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None = None,
    *,
    test: Rows | None = None,
    revision: str | None = None,
    results: str | Path | None = None,
    say: Say | None = None,
    **options: Any,
) -> Comparison:
    """Compare methods, from full fine-tuning to a classifier on a frozen model.

    When the time is up, or after an interrupt, the answer is computed from the runs recorded by
    then. If you repeat the call, training continues where it stopped; ``minutes`` may differ. If
    all runs are recorded, the call returns without training.

    Args:
        train: the training set: a CSV, TSV, JSON, Excel or Parquet file, a DataFrame, a
            ``Dataset``, the name of a dataset on the hub (``"stanfordnlp/sst2"``,
            ``"nyu-mll/glue:cola"``), or a mapping from names of splits to their rows.
        dev: the dev set, in any form accepted for ``train``; or the name of a split of ``train``;
            or the share of the training set that is drawn as the dev set. Default: the validation
            split of ``train``. Without a dev set, methods are compared by cross-validation.
        test: the test set, in any form accepted for ``train``, or the name of a split of ``train``.
            The test set is used for scores only.
        revision: commit, branch or tag of the dataset on the hub.
        results: the results directory; default: a directory in ``results`` whose name depends on
            the arguments.
        say: a function that is called with each line about the data and the chosen settings;
            default: the lines are printed.
        {options}

    Raises:
        SubtuneError: the rows or the model cannot be used, full fine-tuning failed, or fewer than
            two methods can be compared.
    """

    def say_with_argument_names(line: str) -> None:
        (say or partial(print, flush=True))(name_arguments(line))

    require_no_import("compare")
    try:
        if unknown := [*options.keys() - Options.__dataclass_fields__.keys()]:
            names = inspect.signature(compare).parameters
            raise SubtuneError(f"arguments: {format_allowed(unknown[0], names)}")
        asked = Options(**options)
        clock = loop.TimeLimit.start_now(asked.minutes)
        question = normalise_arguments(train, dev, test, revision, asked)
        return run_comparison(question, results, say_with_argument_names, clock)
    except SubtuneError as error:
        raise SubtuneError(name_arguments(str(error))) from None


def run_comparison(
    question: ComparisonRequest, results: str | Path | None, say: Say, clock: loop.TimeLimit
) -> Comparison:
    """Run `compare`. Its messages name command-line options, such as ``--minutes``."""
    default_name = f"{question.name}-{content_id(question.identity)[:6]}"
    place = Path(results or Path("results") / default_name).resolve()
    configuration = place / CONFIGURATION

    def say_in_time(line: str) -> None:
        """Say a line with relative paths, unless the time is up before training can begin."""
        say(line.replace(f"{Path.cwd()}{os.sep}", ""))
        if clock.remaining_seconds < 0 and not configuration.exists():
            raise SubtuneError(OUT_OF_TIME)

    with _lock_directory(place) as lock, ExitStack() as at_end:
        seconds = clock.remaining_seconds
        with (
            end_late_process(seconds, OUT_OF_TIME) if clock.is_process else nullcontext(),
            name_options_in_errors(Path(Layout(str(place)).tables(question.name))),
            _clean_up_after_errors(place),
            ExitStack() as on_error,
        ):
            # The first worker imports its libraries while this process reads the tables.
            workers = on_error.enter_context(contextlib.closing(Workers(place, lock)))
            configure = _continue if configuration.exists() else _configure
            configure(place, question, say_in_time)
            context = plan_and_check(read_config(configuration))
            at_end.push(on_error.pop_all())
        workers.number = context.config.jobs_at_once or 1
        loop.train_within_time_limit(context, clock, workers)
    return Comparison(place)


def normalise_arguments(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None,
    test: Rows | None,
    revision: str | None,
    options: Options,
) -> ComparisonRequest:
    """Normalise the arguments: column names become strings, and model directories absolute paths.

    A later call may continue from another directory.
    """
    how = {"encoding": options.encoding, "sheet": options.sheet}
    dev_share = dev if isinstance(dev, float) else None
    if dev_share is not None and not 0 < dev_share < 1:
        raise SubtuneError(
            f"--dev: found {dev_share}, expected a share between 0 and 1, such as 0.2"
        )
    scored = train if dev_share or dev is None else dev
    _check_order_of_index(options.predictions, scored if test is None else test)
    splits = find_splits(train, None if dev_share else dev, test, revision, **how)
    if dev_share:
        splits.pop("validation", None)
    texts = column_names(options.text) or []
    if isinstance(texts, str):
        texts = [texts]
    text, text2 = [*texts, column_names(options.text2), None][:2]
    with locate_errors("--baselines"):
        baselines = describe_baselines(options.baselines or {})
    models: Any = options.model
    several = [models] if isinstance(models, str | Path) else models or ()
    names = (Path(name).resolve() if is_directory(Path(name)) else name for name in several)
    named = replace(
        options,
        text=text,
        text2=text2,
        label=column_names(options.label),
        group=column_names(options.group),
        # The order of the models does not matter.
        model=sorted({*map(str, names)}) or None,
        baselines=baselines or None,
    )
    return ComparisonRequest(task_name(train), splits, named, dev_share)


def _check_order_of_index(predictions: Any, scored: Any) -> None:
    """Reject predictions whose index is a permutation of the table's index."""
    several = isinstance(predictions, Mapping | list | tuple)
    given = predictions if several else [predictions]
    index: Any = getattr(scored, "index", None)
    for one in given.values() if isinstance(given, Mapping) else given:
        own: Any = getattr(one, "index", None)
        both = isinstance(index, pd.Index) and isinstance(own, pd.Index)
        if both and not index.equals(own) and {*index} == {*own}:
            raise SubtuneError(
                "--predictions: the index has the same values as the table's index, but in a "
                "different order; sort the predictions in the order of the table's rows"
            )


def _configure(place: Path, question: ComparisonRequest, say: Say) -> None:
    """Write the configuration, a description of the call, and all rows that are not in files."""
    paths = write_splits(question.splits, place, Path(Layout(str(place)).tables(question.name)))
    target, options = place / CONFIGURATION, question.options
    share = question.dev_share
    for line in write_first_configuration(paths, options, target, str(place), share, True):
        say(line)
    _record_call(place, question, options.minutes, hash_text(target.read_text("utf-8")))
    say(f"{target} contains these settings")


def _record_call(
    place: Path, question: ComparisonRequest, minutes: float, written_as: str | None
) -> None:
    """Describe a call in the file `ASKED`, for later calls with the same results directory."""
    described = question.identity | {"minutes": minutes, "configuration": written_as}
    write_text(place / ASKED, f"{json.dumps(described, indent=2, default=str)}\n")


def _continue(place: Path, question: ComparisonRequest, say: Say) -> None:
    """Update the configuration of an earlier call for this call.

    Only the time limit, the margin and the predictions may differ. Options that are not given keep
    the values of the earlier call. A `SubtuneError` is raised for any other difference, for results
    that were moved, and for a configuration that no earlier call wrote.
    """
    path = place / CONFIGURATION
    advice = "expected the results of an earlier comparison; choose another directory"
    with convert_errors(f"--results: {place} has a {CONFIGURATION} but no {ASKED}, {advice}"):
        before = json.loads((place / ASKED).read_text())
    planned, written_as = before.pop("minutes"), before.pop("configuration")
    written, text = read_config(path), path.read_text("utf-8")
    earlier_margin = written.experiments[EXPERIMENT].margin
    files = sorted(Path(Layout(str(place)).given_predictions()).glob("*.jsonl"))
    earlier = before | {"predictions": {f.stem: f for f in files} or None}
    options = question.options
    margin = earlier_margin if options.margin is None else options.margin
    kept = {name: earlier.get(name) for name, value in vars(options).items() if value is None}
    question = question._replace(options=replace(options, **kept))
    asked = question.identity
    if differing := [key for key in asked | before if asked.get(key) != before.get(key)]:
        raise SubtuneError(
            f"--results: {place} contains the results of a comparison with a different value of "
            f"{join_names(differing, joined='and')}; choose another directory"
        )
    if Path(written.results) != place:
        raise SubtuneError(
            f"--results: {place} was moved from {written.results}; move it back to continue, or "
            "open it with subtune.load"
        )
    if options.margin is None and earlier_margin != MARGIN:
        say(f"margin {earlier_margin:g}, as before; choose another with --margin")
    is_unedited = hash_text(text) == written_as
    if planned < options.minutes and is_unedited:
        question = question._replace(options=replace(question.options, margin=margin))
        # With more minutes, a larger sample may fit. Recorded runs are reused, not trained again.
        path.unlink()
        try:
            _configure(place, question, say)
        except BaseException:
            write_text(path, text)
            raise
        return
    if planned < options.minutes:
        settings = f"its settings were chosen for {planned:g} minutes"
        say(f"{path} may have been edited, so it is used unchanged; {settings}")
    # The text is edited, which keeps the user's comments. No run depends on margin or predictions.
    new = text
    if margin != earlier_margin:
        new = _set_value(new, ["experiments", EXPERIMENT, "margin"], margin, path)
    if options.predictions is not None:
        new = _set_predictions(new, written, place, question)
    if new != text:
        write_text(path, new)
        _record_call(place, question, planned, hash_text(new) if is_unedited else written_as)


def _set_predictions(text: str, written: Config, place: Path, question: ComparisonRequest) -> str:
    """Write a call's external predictions to files, and name these files in a configuration."""
    options, experiment = question.options, written.experiments[EXPERIMENT]
    task = written.all_tasks()[experiment.tasks[0]]
    keys = ["tasks", task.name, "predictions"]
    # If the text has no such key, this call raises an error before files are written.
    _set_value(text, keys, {}, place / CONFIGURATION)
    paths = write_splits(question.splits, place, Path(Layout(str(place)).tables(question.name)))
    # Methods are scored on the last split.
    table = read_user_table([*paths.values()][-1], options.encoding, options.sheet)
    predictions = read_predictions(options.predictions, table, task)
    # The rows on which the earlier call scored the methods.
    scored = task_reader(task).read(task, scored_file(written, task, experiment.folds), True)
    files = write_predictions(predictions, [place for place, _ in scored], str(place))
    return _set_value(text, keys, files, place / CONFIGURATION)


def _set_value(text: str, keys: Sequence[str], value: object, path: Path) -> str:
    """Replace the value of a nested key in a YAML text, and keep all other text and comments."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in keys:
        values = {name.value: value for name, value in node.value} if node else {}
        node = values.get(key)
    # An indented block, unlike a value in braces, ends only where the next key begins.
    if node is None or getattr(node, "flow_style", None) is False:
        raise SubtuneError(f"{path}: found 0 lines with `{keys[-1]}:`, expected one")
    line = dump_line([value], default_flow_style=True).strip()[1:-1]
    return text[: node.start_mark.index] + line + text[node.end_mark.index :]


@contextmanager
def _lock_directory(place: Path) -> Iterator[int]:
    """Make a directory, lock it against other calls, and yield the lock's file descriptor.

    The lock is released when all processes have closed the file descriptor. A directory that is in
    use, that cannot be written, or whose file system has no locks raises a `SubtuneError`.
    """
    path = Path(Layout(str(place)).lock())
    with convert_errors(f"--results: cannot write {place}"):
        place.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SubtuneError(
                f"--results: another process is using {place}; wait until it ends or choose "
                "another directory"
            ) from None
        except OSError as error:
            # Some network file systems have no locks.
            if [*place.iterdir()] == [path]:
                path.unlink()
                place.rmdir()
            raise SubtuneError(
                f"--results: cannot lock files in {place} ({error.strerror}); choose a directory "
                "on another file system, such as a local disk"
            ) from None
        remove_old_drafts(place)
        yield lock.fileno()


@contextmanager
def _clean_up_after_errors(place: Path) -> Iterator[None]:
    """After an error, remove the files of this call, unless an earlier call has left results."""
    is_new, before = not (place / CONFIGURATION).exists(), {*place.iterdir()}
    try:
        yield
    except BaseException:
        if is_new:
            for path in {*place.iterdir()} - before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            with contextlib.suppress(OSError):
                Path(Layout(str(place)).lock()).unlink()
                place.rmdir()
        raise
