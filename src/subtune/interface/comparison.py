"""Comparisons: which few parameters are worth training, for a user's rows and model."""

import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Number
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from subtune import config
from subtune.config.schema import MARGIN
from subtune.core.content_ids import canonical, id_of
from subtune.core.errors import SubtuneError, cut, listed, one_line, one_of
from subtune.core.layout import Layout, drafts, require_new
from subtune.init.first_configuration import EXPERIMENT, Request, init, require_between
from subtune.init.look import Kind
from subtune.init.messages import sheet_lines
from subtune.interface import driver
from subtune.interface.schedule import schedule_of
from subtune.interface.tables import (
    Rows,
    as_names,
    errors_in_python,
    in_python,
    name_of,
    splits_of,
    write_all,
)
from subtune.interface.workflow import run_to_export
from subtune.stages import plan_file
from subtune.tasks.formats import is_directory

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CONFIGURATION, ASKED = "comparison.yaml", "comparison.json"
MARGIN_LINE = re.compile(r"^([ \t]+margin:[ \t]+)[^\s#]+", re.MULTILINE)
# A key of the second file: the minutes for which the runs were planned.
MINUTES = "minutes"
GOES_ON = (
    "{} goes on with its runs, which were planned for {:g} minutes; --results with another "
    "directory plans for {:g}"
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of a comparison in a directory.

    A notebook displays the answer, every method's loss, and a plot of the Pareto front.
    """

    results: Path

    @property
    def answer(self) -> str:
        """The answer in sentences, one line per model and task."""
        rows = self._read("answers").to_dict("records")
        several = len(rows) > 1
        return "\n".join(
            f"{row['model']}, {row['title']}: " * several + row["answer"] for row in rows
        )

    @property
    def summary(self) -> "pd.DataFrame":
        """A row per method: its score, the difference to full with its interval, its size."""
        return self._read("summary")

    @property
    def runs(self) -> "pd.DataFrame":
        """A row per run. ``runs_columns.csv`` in the results explains the columns."""
        import pandas as pd

        return pd.read_parquet(self._layout.table_of_runs("parquet"))

    @property
    def report(self) -> Path:
        """The path of the report, a page that opens without a network."""
        return Path(self._layout.report())

    def front(self) -> "Figure":
        """Return the figure of scores against trained parameters."""
        from subtune.analysis.predictions import read_row_scores
        from subtune.config.schema import Style
        from subtune.exhibits.front import score_by_parameters
        from subtune.exhibits.results import Results
        from subtune.papers import NO_PAPER

        if "ipykernel" in sys.modules:
            # Notebooks show matplotlib's figures after `%matplotlib inline`.
            from IPython import get_ipython
            from IPython.core.pylabtools import select_figure_formats

            select_figure_formats(get_ipython(), {"png"})
        tables = {
            "chosen": self._chosen,
            "row_scores": read_row_scores(self._data("row_scores")),
        }
        titles = self._read("answers")[["task", "title"]].itertuples(index=False)
        tasks = {task: {"title": title} for task, title in titles}
        results = Results(tables, tasks, NO_PAPER.printed)
        return score_by_parameters(results, Style().model_dump())

    def export(self, method: str, to: str | Path) -> Path:
        """Write a method's best run as a model that transformers or PEFT loads.

        After cross-validation, the method is first trained on all rows.

        Raises:
            SubtuneError: there is no such method, or ``to`` exists.
        """
        # Importing transformers takes seconds.
        from subtune.runs.export import export_model

        runs = self._chosen[self._chosen["decides"]].dropna(subset="value")
        if method not in set(runs["method"]):
            raise SubtuneError(f"method: {one_of(method, runs['method'].unique())}")
        best = runs[runs["method"] == method].sort_values("value").iloc[-1]
        require_new(Path(to))
        run = run_to_export(self.results, best["run"], self.results / CONFIGURATION)
        export_model(self._layout, run, Path(to))
        return Path(to)

    def predict(self, method: str, texts: "Iterable[Any] | pd.DataFrame") -> "pd.DataFrame":
        """Return the predictions of a method's best run, a row for each text.

        ``prediction`` is a label, or a number in the labels' own unit; ``probability_…`` is each
        label's probability. After cross-validation, the method is first trained on all rows.

        Args:
            method: a method's name.
            texts: a list of texts, or of pairs of texts as tuples; or a DataFrame with the text
                columns of training, whose index is kept.

        Raises:
            SubtuneError: there is no such method, or texts do not fit the task.
        """
        import pandas as pd

        from subtune.runs import predict

        model = Path(self._exports.name) / method
        if not model.exists():
            self.export(method, model)
        spec = predict.exported_spec(model)
        task = spec.tokens.data.task
        if isinstance(texts, pd.DataFrame):
            given = texts.rename(columns=str).to_dict("records")
        else:
            several = [texts] if isinstance(texts, str) else texts
            given = [_cells(task.text, text, n) for n, text in enumerate(several, start=1)]
        rows = [(f"text {number}", row) for number, row in enumerate(given, start=1)]
        predicted = predict.predict(model, spec, task, rows, "texts")
        if isinstance(texts, pd.DataFrame | pd.Series):
            return predicted.set_axis(texts.index)
        return predicted

    @cached_property
    def _exports(self) -> TemporaryDirectory:
        """The exported models by method, deleted together with this object."""
        return TemporaryDirectory()

    @property
    def _layout(self) -> Layout:
        return Layout(str(self.results))

    @cached_property
    def _chosen(self) -> "pd.DataFrame":
        from subtune.analysis.scores import read_scores
        from subtune.analysis.summary import merged_experiments

        return merged_experiments([read_scores(path) for path in self._data("chosen")])

    def _data(self, name: str) -> list[Path]:
        """Return the paths of a table of data, one per experiment."""
        return sorted(self.results.glob(Layout(".").data("*", name)))

    def _read(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        path = self._layout.summary(name, "csv")
        return pd.read_csv(path, keep_default_na=False, na_values=[""])

    def __repr__(self) -> str:
        return self.answer

    def _repr_html_(self) -> str:
        from subtune.exhibits.report import data_address, markdown_table

        picture = data_address(Path(self._layout.summary("front", "png")))
        answer = Path(self._layout.summary("answers", "md")).read_text(encoding="utf-8")
        return f'{markdown_table(answer)}<img src="{picture}" width="420">'


def _cells(columns: Sequence[str], text: Any, number: int) -> dict[str, Any]:
    """Return the cells by column of a numbered row, from a text or a tuple of texts."""
    cells = [text] if len(columns) == 1 else text
    is_row = isinstance(cells, Sized) and not isinstance(cells, str) and len(cells) == len(columns)
    if not is_row or any(isinstance(cell, Number) for cell in cells):
        expected = "text" if len(columns) == 1 else f"tuples of {listed(columns)}"
        raise SubtuneError(f"texts: text {number}: found {cut(repr(text))}, expected {expected}")
    return dict(zip(columns, cells, strict=True))


def load(results: str | Path) -> Comparison:
    """Return earlier results.

    Raises:
        SubtuneError: the directory has no report, the last file of a run.
    """
    found = Comparison(Path(results).resolve())
    if not found.report.is_file():
        raise SubtuneError(
            f"results: found no {found.report}, expected the directory of a finished run"
        )
    return found


def compare(
    train: Rows | Mapping[str, Rows],
    dev: Rows | float | None = None,
    *,
    test: Rows | None = None,
    model: str | Path | None = None,
    minutes: float = 10,
    margin: float = MARGIN,
    text: str | int | tuple[str | int, str | int] | None = None,
    label: str | int | Sequence[str | int] | None = None,
    kind: Kind | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    merge_labels: bool = False,
    revision: str | None = None,
    results: str | Path | None = None,
    say: Callable[[str], object] | None = None,
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
        model: a directory, an installed package or a repository on the hub; default: MiniLM.
        minutes: the longest time until the answer. Methods, epochs and rows are chosen to fit.
        margin: the acceptable loss of score against full fine-tuning.
        text: the column of the text, or two columns of pairs; default: a guess.
        label: the column of the label, or several of 0 and 1, one for each label; default: a guess.
        kind: the kind of task; default: a guess.
        encoding: the files' encoding, such as latin-1; default: UTF-8 or UTF-16.
        sheet: the sheet of Excel files; default: the first.
        merge_labels: whether to merge labels that differ only in capitals or invisible characters.
        revision: commit, branch or tag of the dataset on the hub.
        results: directory; default: one below ``results`` whose name depends on the arguments.
        say: a function that gets each line about findings and choices; default: prints it.

    Raises:
        SubtuneError: the rows or the model cannot be used, full fine-tuning failed, or fewer than
            two methods can be compared. One line says why.
    """
    began = time.monotonic()
    with errors_in_python():
        require_between("minutes", minutes)
        require_between("margin", margin, 1)
        splits = splits_of(train, dev, test, revision, encoding=encoding, sheet=sheet)
        options = _options(model, text, label, kind, sheet, merge_labels)
    asked = {split: rows.identity for split, rows in splits.items()} | options
    asked |= {"encoding": encoding}
    name = name_of(train)
    place = Path(results or Path("results") / f"{name}-{id_of(canonical(asked))[:6]}").resolve()
    with _alone(place) as lock:
        with errors_in_python(place / name), _removed_if_refused(place):
            _require_same(place, asked)
            if not (place / CONFIGURATION).exists():
                paths = write_all(splits, place, place / name)
                kept = json.dumps(asked | {MINUTES: minutes}, indent=2, default=str)
                (place / ASKED).write_text(f"{kept}\n")
                # `init` does not see the file whose rows are divided.
                divided = [Path(str(train))] if isinstance(dev, float) and not sheet else []
                with _new_configuration(place) as draft:
                    request = _request(place, paths, options, minutes, margin, draft)
                    _say_all(chain(*map(sheet_lines, divided), init(request)), say)
                _say_all([f"{place / CONFIGURATION} has these settings"], say)
            elif (planned := _asked_before(place)[MINUTES]) < minutes:
                _say_all([GOES_ON.format(place, planned, minutes)], say)
            written = _with_margin(place, margin)
            if not written.jobs_at_once:
                raise SubtuneError(
                    f"{place / CONFIGURATION}: jobs_at_once: found none, expected 1 or more"
                )
            planned = plan_file.made(config.parsed(place / CONFIGURATION))
            schedule = schedule_of(planned, written.assumptions.on_gpu)
        clock = driver.Clock(began, began + 60 * minutes)
        driver.answer(schedule, place, clock, written.jobs_at_once, lock)
    return load(place)


def _options(
    model: str | Path | None,
    text: str | int | tuple[str | int, str | int] | None,
    label: str | int | Sequence[str | int] | None,
    kind: Kind | None,
    sheet: str | None,
    merge_labels: bool,
) -> dict[str, Any]:
    """Return the options of `init` about the rows and the model, with names of columns as text."""
    texts: Any = as_names(text) or ()
    texts = [texts] if isinstance(texts, str) else texts
    if model and is_directory(model) and not Path(model).is_absolute():
        # Workers run in another folder.
        model = Path(model).resolve()
    return {
        "model": None if model is None else str(model),
        "text": texts[0] if texts else None,
        "text2": texts[1] if len(texts) > 1 else None,
        "label": as_names(label),
        "kind": kind,
        "sheet": sheet,
        "merge_labels": merge_labels,
    }


def _request(
    place: Path,
    paths: Mapping[str, Path],
    options: Mapping[str, Any],
    minutes: float,
    margin: float,
    to: Path,
) -> Request:
    return Request(
        paths["train"],
        paths.get("validation"),
        paths.get("test"),
        results=str(place),
        to=to,
        minutes=float(minutes),
        margin=float(margin),
        **options,
    )


@contextmanager
def _new_configuration(place: Path) -> Iterator[Path]:
    """Yield a hidden path for the configuration, which gets its name when it is whole."""
    with drafts({"configuration": str(place / CONFIGURATION)}) as paths:
        draft = Path(paths["configuration"])
        yield draft
        # The configuration names its own file.
        text = draft.read_text("utf-8").replace(draft.name, CONFIGURATION)
        draft.write_text(text, "utf-8")


def _say_all(lines: Iterable[str], say: Callable[[str], object] | None) -> None:
    """Say each line, with paths relative to the current folder."""
    for line in lines:
        line = line.replace(f"{Path.cwd()}{os.sep}", "")
        say(line) if say else print(in_python(line), flush=True)


def _with_margin(place: Path, margin: float) -> config.Config:
    """Return the configuration, after its margin is the one asked for. No run depends on it.

    Raises:
        SubtuneError: the results have been moved, or the configuration has no line with a margin.
    """
    path = place / CONFIGURATION
    written = config.read(path)
    if Path(written.results) != place:
        raise SubtuneError(
            f"results: {place} was {written.results} before; move it back to continue, or "
            "open it with subtune.load"
        )
    before = written.experiments[EXPERIMENT].margin
    if margin == before:
        return written
    text, number = MARGIN_LINE.subn(rf"\g<1>{float(margin)}", path.read_text("utf-8"))
    if not number:
        raise SubtuneError(
            f"{path}: found no line with `margin`, expected one, to write {margin:g} to it"
        )
    with drafts({"configuration": str(path)}) as paths:
        Path(paths["configuration"]).write_text(text, "utf-8")
    return config.read(path)


@contextmanager
def _alone(place: Path) -> Iterator[int]:
    """Make a directory, and keep other calls from it, until the locked file is closed everywhere.

    Yields:
        The file descriptor of the locked file.

    Raises:
        SubtuneError: another call is running there, or the directory cannot be written.
    """
    path = Path(Layout(str(place)).lock())
    with one_line(f"results: cannot write {place}"):
        place.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SubtuneError(f"results: another call is running in {place}") from None
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


def _asked_before(place: Path) -> dict[str, Any]:
    """Return the arguments of the first call, and the minutes for which it planned."""
    return {MINUTES: math.inf, **json.loads((place / ASKED).read_text())}


def _require_same(place: Path, asked: Mapping[str, Any]) -> None:
    if not ((place / ASKED).is_file() and (place / CONFIGURATION).is_file()):
        return
    before = _asked_before(place)
    del before[MINUTES]
    differing = [key for key in {**asked, **before} if asked.get(key) != before.get(key)]
    if differing:
        raise SubtuneError(
            f"results: {place} has the results of a call with other {listed(differing)}; name "
            "another directory"
        )
