"""Read the results of a comparison, export its models, and predict with them."""

import contextlib
import json
import sys
from ast import literal_eval
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.candidates import summarise_methods
from subtune.analysis.chosen_runs import are_external, merge_experiments
from subtune.analysis.run_scores import read_row_scores
from subtune.analysis.tables import find_table_files, read_table
from subtune.comparison.splits import dataframe_to_cells, is_table, to_frame
from subtune.core.errors import SubtuneError, convert_errors, format_allowed, join_names, shorten
from subtune.core.files import Layout, require_new
from subtune.data.table_files import FORMATS, PLACE_KEY, is_file
from subtune.runs import records
from subtune.share import DEFAULT_MINUTES
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import plain_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The file name of a comparison's configuration in the results directory.
CONFIGURATION = "comparison.yaml"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of a comparison.

    A notebook displays the answer, a table of the methods, and the forest plot.

    Attributes:
        results: the results directory.
    """

    results: Path

    @property
    def answer(self) -> str:
        """The answer and the recommended next step: one line with two sentences for each task."""
        from subtune.exhibits.answer_tables import list_answers

        return "\n".join(map(" ".join, list_answers(self._read_summary_table("answers"))))

    @property
    def summary(self) -> pd.DataFrame:
        """A table with one row per method: score, drop in score with an interval, and size."""
        return self._read_summary_table("summary")

    @property
    def runs(self) -> pd.DataFrame:
        """A table with one row per run. Its columns are explained in ``runs_columns.csv``."""
        return read_table(self._layout.table_of_runs(), "runs")

    @property
    def report(self) -> Path:
        """The path of the report, a single HTML file that loads nothing from the network."""
        return Path(self._layout.report())

    def front(self) -> "Figure":
        """Draw the forest plot: the score of each method with its interval."""
        from subtune.exhibits.forest_plot import draw_forest_plot

        if "ipykernel" in sys.modules:
            # Without this, notebooks show a figure only after `%matplotlib inline`.
            from IPython import get_ipython
            from IPython.core.pylabtools import select_figure_formats

            select_figure_formats(get_ipython(), {"png"})
        row_scores = read_row_scores(find_table_files(self.results, "row_scores"))
        titles = self._read_summary_table("answers").set_index("task")["title"].to_dict()
        return draw_forest_plot(summarise_methods(self._chosen_runs, row_scores), titles)

    def export(
        self,
        method: str,
        to: str | Path,
        minutes: float = DEFAULT_MINUTES,
        model: str | None = None,
    ) -> Path:
        """Export the model of the best run of a method, for transformers or PEFT.

        After cross-validation, the method is first trained again on the rows of all folds.

        Args:
            method: the name of the method.
            to: the new directory for the model.
            minutes: the time limit for the training after cross-validation. If training on all rows
                takes longer, a sample is used.
            model: the name of the model, if several are compared; default: the answer's model.

        Raises:
            SubtuneError: there is no such method or model, or ``to`` exists.
        """
        # Importing transformers takes seconds.
        from subtune.share.export import export_model

        require_new(Path(to))
        export_model(self._layout, self.best_run(method, model), Path(to), minutes)
        return Path(to)

    def predict(
        self,
        method: str,
        texts: Any,
        minutes: float = DEFAULT_MINUTES,
        model: str | None = None,
        encoding: str | None = None,
        sheet: str | None = None,
    ) -> pd.DataFrame:
        """Predict the labels of new texts with the model of the best run of a method.

        After cross-validation, the method is first trained again on the rows of all folds.

        Args:
            method: the name of the method.
            texts: a list of texts or of tuples of two texts; or a table in any form that
                `subtune.compare` reads, such as the path of a file or a DataFrame; or a dict of
                columns. A table has the same text columns as the training set.
            minutes: the time limit for the training after cross-validation.
            model: the name of the model, if several are compared; default: the answer's model.
            encoding: the encoding of a file; default: UTF-8 or UTF-16.
            sheet: the sheet of an Excel file; default: the first.

        Returns:
            A table with one row per text. The column ``prediction`` has the predicted label, or a
            number in the unit of the labels. The ``probability_…`` columns contain the
            probability of each label. The index of a DataFrame or Series is kept. Predicted labels
            have the type of the labels in the training set. For labels from files, this is the type
            that `pandas.read_csv` chooses.

        Raises:
            SubtuneError: there is no such method or model, or the texts do not fit the task.
        """
        from subtune.share.predict import PREDICTION, predict_rows, read_new_rows

        run = self.best_run(method, model)
        task = records.read_spec(Path(self._layout.records()), run).tokens.data.task
        task = task.replace(encoding=encoding, sheet=sheet)
        is_path = isinstance(texts, str) and (
            is_file(texts) or Path(texts).suffix.lower() in FORMATS
        )
        if is_path or isinstance(texts, Path):
            rows, source = read_new_rows(task, Path(texts)), str(texts)
        else:
            cells = dataframe_to_cells(_make_frame(task.text, texts))
            rows, source = [(f"text {n}", row) for n, row in enumerate(cells, start=1)], "texts"
        predicted = predict_rows(self._layout, run, task, rows, source, minutes)
        if task.labels is not None:
            given = read_given_labels(Path(self._layout.tables(task.name)), task)
            labels = [
                # A row without text has no prediction.
                [given[word] for word in cell] if isinstance(cell, list) else given.get(cell)
                for cell in predicted[PREDICTION]
            ]
            predicted[PREDICTION] = pd.Series(labels, dtype=object if None in labels else None)
        if isinstance(texts, pd.DataFrame | pd.Series):
            return predicted.set_axis(texts.index)
        return predicted

    def best_run(self, method: str, model: str | None = None) -> str:
        """Return the id of the run with a method's best score.

        Args:
            model: the name of the model; default: the answer's model. If the method has no run with
                the answer's model, the model with the highest mean score is used.

        Raises:
            SubtuneError: there is no such method or model, or there are several tasks.
        """
        is_trained = self._chosen_runs["decides"] & ~are_external(self._chosen_runs)
        runs = self._chosen_runs[is_trained].dropna(subset="value")
        if method not in set(runs["method"]):
            raise SubtuneError(f"method: {format_allowed(method, runs['method'].unique())}")
        runs = runs[runs["method"] == method]
        if runs["task"].nunique() > 1:
            tasks = join_names(runs["task"].unique())
            raise SubtuneError(
                f"method: {method} was trained on several tasks ({tasks}); give the id of a run, "
                "which `subtune runs` lists"
            )
        models = [*runs["model"].unique()]
        # TF-IDF has no model.
        if model not in (None, *models) and runs["encoder_size"].any():
            raise SubtuneError(f"model: {format_allowed(model, models)}")
        model = model or self._answer_model
        if model not in models:
            model = runs.groupby("model")["value"].mean().idxmax()
        return str(runs[runs["model"] == model].sort_values("value").iloc[-1]["run"])

    @property
    def _answer_model(self) -> str:
        """The name of the answer's model; an arbitrary string if there is only one model."""
        answer = self._read_summary_table("answers").iloc[0]
        # If everything should be trained, the answer is the reference. TF-IDF has no model.
        is_named = not answer["decision"].endswith("everything") and answer["encoder_size"] != 0
        return answer["model"] if is_named else str(answer["reference"]).rpartition(" of ")[2]

    @property
    def _layout(self) -> Layout:
        return Layout(str(self.results))

    @cached_property
    def _chosen_runs(self) -> pd.DataFrame:
        paths = find_table_files(self.results, "chosen")
        return merge_experiments([read_table(path, "scores") for path in paths])

    def _read_summary_table(self, name: str) -> pd.DataFrame:
        return read_table(self._layout.summary(name, "csv"))

    def __repr__(self) -> str:
        return self.answer

    def _repr_html_(self) -> str:
        from subtune.exhibits.page import MARKDOWN_PARSER, data_url

        picture = data_url(Path(self._layout.summary("front", "png")))
        answer = Path(self._layout.summary("answers", "md")).read_text(encoding="utf-8")
        return f'{MARKDOWN_PARSER.render(answer)}<img src="{picture}" width="420">'


def _make_frame(columns: Sequence[str], texts: Any) -> pd.DataFrame:
    """Convert texts in any form that `Comparison.predict` accepts to a table."""
    if is_table(texts):
        return to_frame(texts, "texts")
    if isinstance(texts, Mapping):
        with convert_errors("texts: found a dict, expected columns of equal lengths"):
            return pd.DataFrame(texts)
    several = [texts] if isinstance(texts, str) else texts
    return pd.DataFrame([_name_cells(columns, text, n) for n, text in enumerate(several, start=1)])


def _name_cells(columns: Sequence[str], text: Any, number: int) -> Mapping[str, Any]:
    """Map the text columns to the texts of one row. A dict is returned unchanged."""
    if isinstance(text, Mapping):
        return text
    cells = [text] if len(columns) == 1 else text
    is_row = isinstance(cells, Sized) and not isinstance(cells, str) and len(cells) == len(columns)
    if not is_row or any(isinstance(cell, Number) and cell == cell for cell in cells):
        expected = "text" if len(columns) == 1 else f"tuples of {join_names(columns)}"
        raise SubtuneError(
            f"texts: text {number}: found {shorten(repr(text))}, expected {expected}"
        )
    return dict(zip(columns, cells, strict=True))


def read_given_labels(folder: Path, task: TaskSpec) -> dict[str, Any]:
    """Map the label names of a task to the labels as they were given, such as ``"1"`` to ``1``.

    ``folder`` contains the tables that were not passed as files. Labels from files are strings,
    which are converted if all labels are integers, floats or booleans.
    """
    words, given = task.labels or (), dict[str, Any]()
    if not isinstance(task.label, str):
        return dict(zip(words, words, strict=True))
    # The training set is read first, because a split may have labels of another type.
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stem != "train"):
        rows = map(json.loads, path.read_text("utf-8").split("\n")[:-1])
        # Rows whose places are lines come from a converted file, in which all cells are strings.
        for cell in (row.get(task.label) for row in rows if row[PLACE_KEY].startswith("row")):
            for label in cell if isinstance(cell, list) else [cell]:
                given.setdefault(plain_label(str(label)), label)
    if not given:
        with contextlib.suppress(ValueError, SyntaxError):
            values = [*map(literal_eval, words)]
            if [*map(str, values)] == [*words] and all(isinstance(v, int | float) for v in values):
                given = dict(zip(words, values, strict=True))
    return {word: word if given.get(word) is None else given[word] for word in words}


def load(results: str | Path) -> Comparison:
    """Open the results of an earlier comparison; raise a `SubtuneError` if there are no answers."""
    found = Comparison(Path(results).resolve())
    answers = found._layout.summary("answers", "csv")
    if not Path(answers).is_file():
        raise SubtuneError(
            f"results: no such file: {answers}, expected the results of a finished comparison"
        )
    return found
