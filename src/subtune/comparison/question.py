"""`subtune.compare`: which few parameters are worth training, for a user's rows and model."""

import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from subtune.comparison import DEFAULTS, Options, loop, with_options
from subtune.comparison.first_configuration import EXPERIMENT, write_first_configuration
from subtune.comparison.own_task import write_predictions
from subtune.comparison.results import CONFIGURATION, Comparison, load
from subtune.comparison.splits import (
    Rows,
    Split,
    column_names,
    errors_in_python,
    find_splits,
    name_arguments,
    name_rows,
    task_name,
    write_splits,
)
from subtune.comparison.workers import Workers
from subtune.config import parse_config_file
from subtune.config.checks import check_config, read_config
from subtune.config.schema import Config
from subtune.core.errors import SubtuneError, listed, one_line
from subtune.core.files import Layout, hash_files, hash_text, write_text
from subtune.core.ids import content_id
from subtune.data.table_files import is_directory, is_file
from subtune.plan.inputs import judging_file
from subtune.steps.context import preflight

# The file in the results with the first call's question.
ASKED = "comparison.json"
Say = Callable[[str], object]


class Question(NamedTuple):
    """The question of a call.

    Attributes:
        name: the task's name.
        splits: the rows of each split.
        options: the options about tables, model and limits.
        dev_share: the share of the training rows that are drawn as the dev set, if one is asked.
    """

    name: str
    splits: dict[str, Split]
    options: Options
    dev_share: float | None

    @property
    def identity(self) -> dict[str, Any]:
        """The values on which the runs depend. Another identity needs another directory."""
        chosen = vars(self.options) | {"dev": self.dev_share}
        # A later call may have another time, another margin and predictions.
        del chosen["minutes"], chosen["margin"], chosen["predictions"]
        if self.options.model and len(self.options.model) == 1:
            [chosen["model"]] = self.options.model
        kept = {name: value for name, value in chosen.items() if value is not None}
        return {split: rows.identity for split, rows in self.splits.items()} | kept


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
    """Train methods from full fine-tuning to the classifier alone, and return the comparison.

    At the end of the minutes, or after an interrupt, the runs that are recorded by then give the
    answer. The same call, with any number of minutes, continues from there; if everything is done,
    it returns at once.

    Args:
        train: rows to train on: a CSV, TSV, JSON, Excel or Parquet file, a DataFrame, a
            ``Dataset``, the name of a dataset on the hub (``"stanfordnlp/sst2"``,
            ``"nyu-mll/glue:cola"``), or a mapping of splits.
        dev: rows to evaluate on; or the name of one of ``train``'s splits; or a share of the
            training rows. Default: ``train``'s validation split; if it has none, each training row
            is predicted once, by a run that did not train on it.
        test: rows that are used for scores only.
        revision: commit, branch or tag of the dataset on the hub.
        results: directory; default: one below ``results`` whose name depends on the arguments.
        say: a function that gets each line about findings and choices; default: prints it.
        {options}

    Raises:
        SubtuneError: the rows or the model cannot be used, full fine-tuning failed, or fewer than
            two methods can be compared. One line says why.
    """

    def say_in_python(line: str) -> None:
        (say or partial(print, flush=True))(name_arguments(line))

    with errors_in_python():
        asked = Options(**options)
        return answer_question(train, dev, test, revision, results, say_in_python, asked)


def answer_question(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None,
    test: Rows | None,
    revision: str | None,
    results: str | Path | None,
    say: Say,
    options: Options,
) -> Comparison:
    """Do what `compare` does; messages name the terminal's options."""
    began = time.monotonic()
    question = _question(train, dev, test, revision, options)
    own = f"{question.name}-{content_id(question.identity)[:6]}"
    place = Path(results or Path("results") / own).resolve()
    with _alone(place) as lock, ExitStack() as at_end:
        with name_rows(place / question.name), _removed_if_refused(place), ExitStack() as refused:
            # A worker's libraries are imported while tables are read.
            workers = refused.enter_context(contextlib.closing(Workers(place, lock)))
            if (place / CONFIGURATION).exists():
                _continue(place, question, say)
            else:
                _configure(place, question, say)
            context = preflight(check_config(parse_config_file(place / CONFIGURATION)))
            at_end.push(refused.pop_all())
        workers.number = context.config.jobs_at_once or 1
        clock = loop.Clock(began, began + 60 * question.options.minutes)
        loop.train_and_judge(context, clock, workers)
    return load(place)


def _question(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None,
    test: Rows | None,
    revision: str | None,
    options: Options,
) -> Question:
    """Return what a call asks. Columns get their names as text, and a model its absolute path."""
    how = {"encoding": options.encoding, "sheet": options.sheet}
    dev_share = dev if isinstance(dev, float) else None
    if dev_share is not None and not 0 < dev_share < 1:
        raise SubtuneError(
            f"--dev: found {dev_share}, expected a share between 0 and 1, such as 0.2"
        )
    splits = find_splits(train, None if dev_share else dev, test, revision, **how)
    if dev_share:
        splits.pop("validation", None)
    texts = column_names(options.text) or []
    if isinstance(texts, str):
        texts = [texts]
    text, text2 = [*texts, column_names(options.text2), None][:2]
    named = replace(
        options,
        text=text,
        text2=text2,
        label=column_names(options.label),
        group=column_names(options.group),
        model=_name_models(options.model),
    )
    return Question(task_name(train), splits, named, dev_share)


def _identify_predictions(given: Any) -> Any:
    """Return a text that differs for other predictions, or a list of such texts."""
    if given is None:
        return None
    if isinstance(given, str | Path):
        name = Path(given).stem
        return f"{name} {hash_files(Path(given))}" if is_file(given) else str(given)
    if isinstance(given, list | tuple):
        return [*map(_identify_predictions, given)]
    if hasattr(given, "columns"):
        return hash_text(given.to_json())
    values = hash_text(json.dumps([*map(str, given)])) if isinstance(given, Iterable) else given
    return f"{getattr(given, 'name', None)} {values}"


def _name_models(models: Any) -> list[str] | None:
    """Return the names of models. Directories are absolute, as workers run in another folder."""
    if models is None:
        return None
    several = [models] if isinstance(models, str | Path) else models
    return [
        str(Path(name).resolve()) if is_directory(Path(name)) else str(name) for name in several
    ]


def _configure(place: Path, question: Question, say: Say) -> None:
    """Write the rows that are no files yet, the question, and a configuration."""
    paths = write_splits(question.splits, place, place / question.name)
    target, options = place / CONFIGURATION, question.options
    lines = write_first_configuration(
        paths, options, target, str(place), question.dev_share, DEFAULTS.seeds
    )
    _say_all(lines, say)
    written_as = hash_text(target.read_text("utf-8"))
    _note(place, question, options.minutes, options.predictions, written_as)
    _say_all([f"{target} has these settings"], say)


def _note(
    place: Path, question: Question, minutes: float, predictions: Any, written_as: str | None
) -> None:
    """Note a question, and the hash of its configuration as it was written, without edits."""
    noted = question.identity | {
        "minutes": minutes,
        "predictions": _identify_predictions(predictions),
        "configuration": written_as,
    }
    write_text(place / ASKED, f"{json.dumps(noted, indent=2, default=str)}\n")


def _continue(place: Path, question: Question, say: Say) -> None:
    """Prepare an earlier call's results for this call.

    It may have another time, another margin, and predictions.

    Raises:
        SubtuneError: the earlier call had another question, or its results have been moved.
    """
    before, options = json.loads((place / ASKED).read_text()), question.options
    planned, brought = before.pop("minutes", math.inf), before.pop("predictions", None)
    written_as, path = before.pop("configuration", None), place / CONFIGURATION
    asked = question.identity
    before = {name: value for name, value in before.items() if value is not None}
    if differing := [key for key in asked | before if asked.get(key) != before.get(key)]:
        raise SubtuneError(
            f"--results: {place} has the results of a call with other {listed(differing)}; name "
            "another directory"
        )
    written = read_config(path)
    if Path(written.results) != place:
        raise SubtuneError(
            f"--results: {place} was {written.results} before; move it back to continue, or "
            "open it with subtune.load"
        )
    text = path.read_text("utf-8")
    is_unedited = hash_text(text) == written_as
    if planned < options.minutes and is_unedited:
        # More minutes may use more rows. Runs that are planned again are not trained again.
        path.unlink()
        try:
            _configure(place, question, say)
        except BaseException:
            write_text(path, text)
            raise
        if brought and options.predictions is None:
            _say_all(["--predictions: this call has none, so none are compared"], say)
        return
    if planned < options.minutes:
        line = f"{path} was planned for {planned:g} minutes or edited: it stays as it is"
        _say_all([line], say)
    # Comments stay. No run depends on the margin or on predictions.
    new = text
    if written.experiments[EXPERIMENT].margin != options.margin:
        new = _set_value(new, "margin", options.margin, path)
    given = _identify_predictions(options.predictions)
    is_new = given is not None and given != brought
    if is_new:
        new = _set_predictions(new, written, place, question)
    if new != text or is_new:
        write_text(path, new)
        noted = options.predictions if is_new else brought
        _note(place, question, planned, noted, hash_text(new) if is_unedited else written_as)


def _set_predictions(text: str, written: Config, place: Path, question: Question) -> str:
    """Write the predictions of a call, and return the text of the configuration with their files.

    Args:
        text: the text of the configuration.
        written: the configuration.
        place: the directory of the results.
        question: the question of the call.
    """
    # Nothing is written if there is no place for it.
    _set_value(text, "predictions", {}, place / CONFIGURATION)
    paths = write_splits(question.splits, place, place / question.name)
    experiment = written.experiments[EXPERIMENT]
    task = written.all_tasks()[experiment.tasks[0]]
    judging = judging_file(written, task, experiment.folds)
    options, dev_share = question.options, question.dev_share
    files = write_predictions(paths, options, str(place), dev_share, judging)
    return _set_value(text, "predictions", files, place / CONFIGURATION)


def _set_value(text: str, key: str, value: object, path: Path) -> str:
    """Return the text of a configuration with another value on the only line with a key.

    Raises:
        SubtuneError: there is no such line, or there are several.
    """
    flow = yaml.safe_dump({key: value}, default_flow_style=True, width=math.inf, sort_keys=False)
    line = re.compile(rf"(?m)^( +){key}: .*?(  #.*)?$")
    new, changes = line.subn(lambda found: f"{found[1]}{flow.strip()[1:-1]}{found[2] or ''}", text)
    if changes != 1:
        raise SubtuneError(f"{path}: found {changes} lines with `{key}`, expected one")
    return new


def _say_all(lines: Iterable[str], say: Say) -> None:
    """Say each line, with paths relative to the current folder."""
    for line in lines:
        say(line.replace(f"{Path.cwd()}{os.sep}", ""))


@contextmanager
def _alone(place: Path) -> Iterator[int]:
    """Make a directory, and keep other calls from it, until the locked file is closed everywhere.

    Yields:
        The file descriptor of the locked file.

    Raises:
        SubtuneError: another call is running there, or the directory cannot be written.
    """
    path = Path(Layout(str(place)).lock())
    with one_line(f"--results: cannot write {place}"):
        place.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SubtuneError(f"--results: another call is running in {place}") from None
        yield lock.fileno()


@contextmanager
def _removed_if_refused(place: Path) -> Iterator[None]:
    """Remove what a refused call has written, unless an earlier call has left results."""
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
