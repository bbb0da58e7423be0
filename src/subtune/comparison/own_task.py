"""Build the task for a user's tables: read tables, guess columns, choose models and rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from subtune.comparison import DEFAULTS, Options, TableOptions
from subtune.comparison.look import Facts, compute_length_statistics, describe_tables
from subtune.comparison.settings import StartingModel, choose_max_lengths, find_starting_models
from subtune.comparison.user_table import (
    UserTable,
    guess_label_columns,
    guess_text_columns,
    label_columns,
    label_sort_key,
    make_task_name,
    read_user_table,
    require_labels_as_text,
    require_texts,
)
from subtune.core.errors import (
    SubtuneError,
    format_missing_column,
    join_names,
    locate_errors,
    quote,
)
from subtune.core.files import Layout
from subtune.data import sources
from subtune.data.subsets import WholeTable, draw_dev_set, write_table_description
from subtune.data.table_files import INCOMPLETE_SHARE, fill_empty_flags, write_rows
from subtune.tasks import Task
from subtune.tasks.sentences import parse_flag, parse_number
from subtune.tasks.task import TEST, TaskSize
from subtune.tasks.task_kind import Columns, PlacedRow


class TablesAndModels(NamedTuple):
    """A user's tables by split, the facts about these tables, and the models.

    Attributes:
        models: the models, by their names in the configuration.
        token_counts: for each model, the numbers of tokens of the training texts (or of a sample if
            there are many), in ascending order.
        most_tokens: the ``token_counts`` of the model with the most tokens.
        windows: possible values of `max_length`, the largest first.
        problems: maps the given name of each model that cannot be used to an error message.
    """

    facts: Facts
    tables: dict[str, UserTable]
    models: dict[str, StartingModel]
    token_counts: dict[str, np.ndarray]
    most_tokens: np.ndarray
    windows: list[int]
    problems: dict[str, str]


def read_tables_and_models(
    paths: Mapping[str, Path | None], options: TableOptions
) -> TablesAndModels:
    """Read a user's tables, collect facts about them, and find the models to compare.

    ``paths`` maps the name of each split to its file, if any.

    Raises:
        SubtuneError: a table cannot be read, a column is missing or cannot be guessed, or no model
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
    is_multilabel = options.kind == "multilabel"
    if isinstance(label, tuple) and len(label) == 1:
        if not is_multilabel or None in map(parse_flag, train.cells(label[0])):
            [label] = label
    elif isinstance(label, tuple) and options.kind and not is_multilabel:
        raise SubtuneError(
            f"--label: found several columns ({join_names(label)}), expected one column, because "
            f"the kind of task is {options.kind}"
        )
    require_labels_as_text(train, label_columns(label))
    text = text or guess_text_columns(train, label_columns(label))
    columns = (*text, *label_columns(label), *filter(None, [options.group]))
    for column in columns:
        if columns.count(column) > 1:
            raise SubtuneError(
                f"{train.path}: column {column!r} is named twice, expected different columns for "
                "--text, --text2, --label and --group"
            )
        for table in tables.values():
            if column not in table.columns:
                missing = format_missing_column(column, table.columns)
                raise SubtuneError(f"{table.path}: {missing}")
    if not isinstance(label, str):
        tables = {
            split: table._replace(rows=fill_empty_flags(table.rows, label))
            for split, table in tables.items()
        }
    texts = [tuple(str(row.get(column) or "") for column in text) for _, row in train.rows]
    models, problems = find_starting_models(options.model, texts)
    counted = {name: model.token_counts(texts) for name, model in models.items()}
    counts = {name: lengths for name, (lengths, _) in counted.items()}
    most = max(counts, key=lambda name: counts[name].sum())
    longest = min(model.longest_text for model in models.values())
    windows = choose_max_lengths(counts[most], longest)
    unknown = max(share for _, share in counted.values())
    lengths = compute_length_statistics(
        counts[most], windows[0], bool(models[most].directory), unknown
    )
    guessed = tuple(
        n for n in ("text", "label", "sheet", "kind", "group") if getattr(options, n) is None
    )
    facts = describe_tables(tables, text, label, lengths, options.kind, guessed)
    return TablesAndModels(facts, tables, models, counts, counts[most], windows, problems)


class ChosenRows(NamedTuple):
    """A task with its rows.

    Attributes:
        files: maps each split to its file.
        rows: the labelled rows of each split, with their places in the user's files.
        columns: for each split, the texts and labels that the task reads from the rows.
        numbers: for each split, the indices of the rows that may be used. The indices of a drawn
            dev set refer to the training table.
    """

    task: Task
    files: dict[str, str]
    rows: dict[str, list[PlacedRow]]
    columns: dict[str, Columns]
    numbers: dict[str, np.ndarray]

    def write(self, numbers: Mapping[str, np.ndarray], folder: Path) -> "ChosenRows":
        """Write the rows with these indices to new files, and return a copy that refers to them."""
        files = {split: str(folder / f"{split}.jsonl") for split in self.rows}
        for split, rows in self.rows.items():
            write_rows(Path(files[split]), (rows[number] for number in numbers[split]))
        whole = WholeTable(
            path=str(Path(self.files["train"]).resolve()),
            version=sources.files_version({"train": Path(self.files["train"])}),
            rows=len(self.numbers["train"]),
            encoding=self.task.encoding,
            sheet=self.task.sheet,
        )
        write_table_description(folder, whole)
        return self._replace(task=self.task.replace(encoding=None, sheet=None), files=files)


def collect_rows(
    look: TablesAndModels, task: Task, results: str, dev_share: float | None
) -> ChosenRows:
    """Collect a task's rows, and draw a share of the training set as the dev set if needed."""
    paths = {split: table.path for split, table in look.tables.items()}
    tables = {split: table.rows for split, table in look.tables.items()}
    columns = sources.read_columns(task, paths, tables=tables)
    labelled = dict[str, list[PlacedRow]]()
    for split, rows in tables.items():
        left_out = {*look.facts.parts[split].left_out}
        labelled[split] = [row for row in rows if row[0] not in left_out]
    numbers = {split: np.arange(len(placed)) for split, placed in labelled.items()}
    if dev_share:
        with locate_errors(f"--dev: {paths['train']}"):
            numbers |= draw_dev_set(task, columns["train"], dev_share)
        labelled["validation"], columns["validation"] = labelled["train"], columns["train"]
    files = {split: str(path) for split, path in paths.items()}
    chosen = ChosenRows(task, files, labelled, columns, numbers)
    return chosen.write(numbers, Path(Layout(results).split_tables())) if dev_share else chosen


def require_labels(facts: Facts) -> None:
    """Check that a model can learn from the labels.

    Raises:
        SubtuneError: many rows have no label, there are too few or too many classes, most labels of
            the dev set do not occur in the training set, or a label of the test set does not.
    """
    names, parts = join_names(label_columns(facts.label)), facts.parts
    for part in parts.values():
        # For multi-label tasks, a later check explains better why a cell cannot be read.
        places = part.faulty.get(f"without {quote(names)}", ())
        if places and facts.kind != "multilabel":
            place = places[0].removesuffix(f" of {part.path}")
            raise SubtuneError(
                f"{part.path}: {place}: the row has no label in column {names!r}, expected a label "
                f"in each row (rows without a label are left out only if they are at most "
                f"{INCOMPLETE_SHARE:.0%} of all rows)"
            )
    train, dev = parts["train"], parts.get("validation", parts["train"])
    learnt = [word for word, count in train.labels.items() if count]
    # If 0/1 columns contain no 1, a later check names the cell that is neither 0 nor 1.
    if facts.kind == "regression" or not (learnt or isinstance(facts.label, str)):
        return
    if len(learnt) < 2:
        found = f"found only the label {join_names(learnt)}" if learnt else "no row has a label"
        raise SubtuneError(f"{train.path}: {found}, expected at least two classes")
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in facts.guessed else most
    if len(learnt) > limit:
        hint = "; if each label is a class, add --classes" if len(learnt) <= most else ""
        raise SubtuneError(
            f"--label: found {len(learnt):,} different labels in {rows:,} rows of column {names!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )
    for split, part in parts.items():
        # Labels that occur only in the dev set are classes, too. Labels that occur only in the test
        # set are mistakes.
        known = {*learnt, *(dev.labels if split == TEST else ())}
        unknown = sorted(word for word, count in part.labels.items() if count and word not in known)
        share = sum(part.labels[word] for word in unknown) / max(1, sum(part.labels.values()))
        if share > 0.5 or (split == TEST and unknown):
            raise SubtuneError(
                f"{part.path}: column {names!r}: {'most' if share > 0.5 else 'some'} rows have "
                f"labels that are not in the training set ({join_names(unknown[:5])}), expected "
                f"labels of {train.path} ({join_names(sorted(known)[:5])})"
            )


def make_task(facts: Facts, options: Options) -> Task:
    """Build the task of the tables. Unsuitable labels or columns raise a `SubtuneError`."""
    require_labels(facts)
    label, kind, parts = facts.label, facts.kind, facts.parts
    train, dev = parts["train"].labels, parts.get("validation", parts["train"]).labels
    words = sorted({*train, *dev}, key=label_sort_key) if isinstance(label, str) else label
    if kind == "classification" and len(words) == 2 and parse_number(words[1]) is None:
        # Binary F1 is computed for the last class, so the rarer class is put last.
        words = sorted(words, key=lambda word: -train.get(word, 0))
    metrics = DEFAULTS.metrics[kind]
    if kind == "classification":
        even = sum(train.values()) / len(words)
        # If one class dominates, always predicting this class has a high accuracy.
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


def count_folds(train: str, size: TaskSize, group: str | None) -> int:
    """Return the largest number of folds up to `DEFAULTS.seeds`, or raise a `SubtuneError`."""
    folds = size.most_folds(DEFAULTS.seeds)
    if folds < 2 and size.scarcest:
        advice = "; remove rows with repeated texts, or run without --group" if group else ""
        raise SubtuneError(
            f"{train}: found too few {size.scarcest[0]}, expected at least two: one for training "
            f"and one for evaluation{advice}"
        )
    return folds
