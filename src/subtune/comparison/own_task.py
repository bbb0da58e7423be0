"""The task of a user's tables: its columns, models and rows."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from subtune.comparison import DEFAULTS, Options, TableOptions
from subtune.comparison.look import (
    Facts,
    describe_lengths,
    describe_tables,
    require_labels,
)
from subtune.comparison.predictions import check_predictions, list_predictions
from subtune.comparison.settings import (
    StartingModel,
    find_starting_models,
    possible_windows,
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
from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import Layout
from subtune.data import sources
from subtune.data.sample import (
    WholeTable,
    draw_dev_set,
    read_whole_table,
    write_drawn_rows,
    write_whole_table,
)
from subtune.data.table_files import drop_unlabelled_rows
from subtune.tasks import Task
from subtune.tasks.sentences import parse_number
from subtune.tasks.task import TEST, TaskSize
from subtune.tasks.task_kind import Cells, Columns, PlacedRow


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
    guessed = tuple(
        n for n in ("text", "label", "sheet", "kind", "group") if getattr(options, n) is None
    )
    facts = describe_tables(tables, text, label, lengths, options.kind, guessed)
    return Look(facts, tables, models, counts, problems)


class ChosenRows(NamedTuple):
    """The rows of a task.

    Attributes:
        task: the task.
        files: the file of each split.
        rows: the cells of the labelled rows of each split.
        columns: the columns that the task's kind reads from them.
        numbers: the numbers of the rows of each split that may be used. A drawn dev set has the
            rows of the training table.
        predictions: of each system that the user brings, the cells with its predictions of the
            rows that give the scores.
    """

    task: Task
    files: dict[str, str]
    rows: dict[str, list[dict[str, Any]]]
    columns: dict[str, Columns]
    numbers: dict[str, np.ndarray]
    predictions: dict[str, list[Cells]]

    @property
    def judges(self) -> str:
        """The split whose rows give the scores."""
        return next(s for s in (TEST, "validation", "train") if s in self.numbers)

    def write(self, numbers: Mapping[str, np.ndarray], folder: Path) -> "ChosenRows":
        """Write some rows of each split to new files, with a note about where they are from."""
        files = write_drawn_rows(self.rows, numbers, folder)
        whole = WholeTable(
            path=str(Path(self.files["train"]).resolve()),
            rows=len(self.numbers["train"]),
            drawn={split: chosen.tolist() for split, chosen in numbers.items()},
            encoding=self.task.encoding,
            sheet=self.task.sheet,
        )
        write_whole_table(folder, whole)
        return self._replace(task=self.task.replaced(encoding=None, sheet=None), files=files)

    def write_predictions(self, numbers: Collection[int], folder: Path) -> dict[str, str]:
        """Write the predictions of some rows, and return the file of each system."""
        drawn = dict.fromkeys(self.predictions, numbers)
        return write_drawn_rows(self.predictions, drawn, folder)


def choose_rows(
    look: Look, task: Task, predictions: Any, results: str, dev_share: float | None
) -> ChosenRows:
    """Return the rows of a task, with the predictions that the user brings.

    Args:
        look: the tables.
        task: their task.
        predictions: the argument of `list_predictions`.
        results: the directory of the results.
        dev_share: the share of the training rows that are drawn as the dev set, if one is asked.
    """
    files = {split: part.path for split, part in look.facts.parts.items()}
    by_split = sources.user_task_files(files, task, may_lack="validation")
    columns = sources.read_columns(task, by_split)
    judging = look.tables[look.facts.judges]
    labelled = {split: _labelled_rows(table, look.facts) for split, table in look.tables.items()}
    kept, brought = {place for place, _ in labelled[look.facts.judges]}, dict[str, list[Cells]]()
    for one in list_predictions(predictions, judging.columns):
        system, predicted = check_predictions(one, judging.rows, task, [*brought])
        brought[system] = [
            {"row": place} | cells
            for (place, _), cells in zip(judging.rows, predicted, strict=True)
            if place in kept
        ]
    rows = {split: [cells for _, cells in placed] for split, placed in labelled.items()}
    numbers = {split: np.arange(len(cells)) for split, cells in rows.items()}
    if dev_share:
        numbers = draw_dev_set(task, columns["train"], dev_share)
        rows["validation"], columns["validation"] = rows["train"], columns["train"]
    chosen = ChosenRows(task, files, rows, columns, numbers, brought)
    return chosen.write(numbers, Path(Layout(results).rows())) if dev_share else chosen


def write_predictions(
    paths: Mapping[str, Path | None],
    options: Options,
    results: str,
    dev_share: float | None,
    judging: Path,
) -> dict[str, str]:
    """Write a user's predictions for the rows of an earlier call, and return each system's file.

    ``judging`` is the file whose rows give the scores. The other arguments are those of
    `subtune.comparison.first_configuration.write_first_configuration`.
    """
    look, layout = look_at_tables(paths, options), Layout(results)
    task = make_task(look.facts, options)
    rows = choose_rows(look, task, options.predictions, results, dev_share)
    whole = read_whole_table(judging.parent)
    numbers = whole.drawn[rows.judges] if whole else rows.numbers[rows.judges]
    return rows.write_predictions(numbers, Path(layout.predictions()))


def _labelled_rows(table: UserTable, facts: Facts) -> list[PlacedRow]:
    """Return the rows that tasks read: without those that have no label."""
    if facts.kind == "multilabel":
        return table.rows
    return drop_unlabelled_rows(table.rows, *label_names(facts.label))[0]


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


def count_folds(train: str, size: TaskSize) -> int:
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
