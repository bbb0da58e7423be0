"""Lines that `subtune init` prints about tables, settings and time."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from subtune.core.errors import cut, listed
from subtune.init.choosing import Settings
from subtune.init.labels import Labels, rows_of_words
from subtune.init.models import StartingModel
from subtune.init.tables import Table, number_in
from subtune.planning.cost import in_words
from subtune.tasks import Task
from subtune.tasks.formats.text import shown

# A line names at most this many columns or classes.
NAMED = 12
ROWS = {"train": "training", "validation": "dev", "test": "test"}


def of_tables(train: Table, dev: Table | None, test: Table | None) -> Iterator[str]:
    """Yield the numbers of rows, and the columns."""
    columns = listed(train.columns, NAMED, "and")
    yield f"{train.path}: {len(train.rows):,} rows to train on; columns {columns}"
    if dev:
        yield f"{dev.path}: {len(dev.rows):,} rows to evaluate on"
    if test:
        yield f"{test.path}: {len(test.rows):,} rows to judge by, which choose nothing"


def of_texts(task: Task, is_guessed: bool) -> str:
    """Return the line about the columns of the text."""
    columns = " and ".join(map(shown, task.text))
    how = "pairs of texts: columns" if len(task.text) == 2 else "text: column"
    return f"{how} {columns}{_guessed(is_guessed, '--text')}"


def of_labels(labels: Labels, is_guessed: bool, has_dev: bool) -> Iterator[str]:
    """Yield lines about the labels, and the score of always giving the most frequent one."""
    columns = (labels.column,) if isinstance(labels.column, str) else labels.column
    several = f"columns {listed(map(shown, columns), NAMED, 'and')} of 0 and 1"
    where = f"column {shown(columns[0])}" if len(columns) == 1 else several
    yield f"label: {where}{_guessed(is_guessed, '--label')}"
    if labels.words is None:
        low, high = min(map(float, labels.train)), max(map(float, labels.train))
        yield f"regression: numbers from {low:g} to {high:g} (if they are classes: --classes)"
    else:
        rows, most = rows_of_words(labels.train), labels.most_frequent
        answer = listed([most] if isinstance(most, str) else most) or "no label"
        counts = [f"{cut(word)} ({rows[word]:,})" for word in labels.words]
        what, hint = "classes", ""
        if labels.kind == "multilabel":
            what = "labels, any number of them"
            hint = " (if each cell is one class: --classes)" if len(columns) == 1 else ""
        elif None not in map(number_in, labels.train):
            hint = " (if they are numbers to predict: --regression)"
        yield f"{len(counts)} {what}: {listed(counts, NAMED, 'and')}{hint}"
        share = labels.dev[labels.most_frequent] / labels.dev.total()
        yield f"always answering {answer} is right in {share:.0%} of the {'dev ' * has_dev}rows"
    yield f"metrics: {', '.join(labels.metrics)}"


def of_repeats(task: Task, columns: Mapping[str, dict[str, list]]) -> Iterator[str]:
    """Yield a line for each two files that have texts in common."""
    texts = {split: [*map(tuple, task.of_kind.texts(of))] for split, of in columns.items()}
    for first, second in itertools.combinations(texts, 2):
        seen = {*texts[first]}
        number = sum(text in seen for text in texts[second])
        if number:
            yield (
                f"{number:,} of the {len(texts[second]):,} {ROWS[second]} rows are also in the "
                f"{ROWS[first]} file: their scores say little about new texts"
            )


def of_model(model: StartingModel) -> str:
    """Return the line about the model: its size, and why it was chosen."""
    dimensions = model.dimensions
    size = "its size is known once it is downloaded"
    if dimensions:
        layers, millions = dimensions.num_hidden_layers, dimensions.parameters / 1e6
        size = f"{layers} layers, {millions:,.1f} million parameters"
    return f"model: {model.reference}, {size}: {model.reason}; another with --model"


def of_lengths(counts: np.ndarray, max_length: int, are_counted: bool) -> str:
    """Return the line about the lengths of texts, and the share that is cut."""
    unit = "tokens" if are_counted else "tokens, guessed from their words"
    return (
        f"lengths: half of the texts have up to {int(np.median(counts))} {unit}, the longest "
        f"{counts[-1]:,}; max_length {max_length}, {cut_share(counts, max_length)}"
    )


def cut_share(counts: np.ndarray, max_length: int) -> str:
    """Return the share of texts that a window cuts, in words."""
    longer = np.mean(counts > max_length)
    return f"which cuts {longer:.1%} of them" if longer else "which cuts none"


def of_runs(settings: Settings) -> str:
    """Return the line about the runs."""
    # A method without learning rates trains nothing, and no seed changes it.
    trained = [method for method, rates in settings.methods.items() if rates]
    others = "".join(f", and {method}" for method in settings.methods if method not in trained)
    seeds = len(settings.seeds)
    own = settings.own_epochs
    longer = f" ({next(iter(own.values()))} of {', '.join(own)})" if own else ""
    return (
        f"{seeds * len(trained)} runs: methods ({', '.join(trained)}) × {seeds} seeds{others}; "
        f"{settings.epochs} epochs each{longer}, in batches of {settings.batch_size}; the first "
        "seed searches each method's learning rate"
    )


def of_shorter(usual: Settings, chosen: Settings, minutes: float) -> Iterator[str]:
    """Yield a line about what was made shorter to fit the minutes, if anything was."""
    left_out = [method for method in usual.methods if method not in chosen.methods]
    changes = [f"without {', '.join(left_out)}"] if left_out else []
    if chosen.train_rows < usual.train_rows:
        changes.append(f"{chosen.train_rows:,} of {usual.train_rows:,} rows train")
    if chosen.epochs < usual.epochs:
        changes.append(f"{chosen.epochs} epochs in place of {usual.epochs}")
    elif chosen.own_epochs != usual.own_epochs:
        changes.append("fewer epochs of single methods")
    if changes:
        yield f"shorter, to fit into {in_words(60 * minutes)}: {', '.join(changes)}"


def of_time(seconds: float | None, model: StartingModel, minutes: float) -> Iterator[str]:
    """Yield lines about the estimated time on this machine; None is an unknown time."""
    if seconds is None:
        yield f"time: not known before {model.reference} is downloaded"
        return
    yield f"time: about {in_words(seconds)} here, an estimate from one timed matrix product"
    if seconds > 60 * minutes:
        yield (
            f"that is longer than {in_words(60 * minutes)}: shorten the list under `methods`, "
            "lower `epochs` or `train_rows`, or name a smaller model"
        )


def _guessed(is_guessed: bool, option: str) -> str:
    return f" (a guess; {option} names another)" if is_guessed else ""
