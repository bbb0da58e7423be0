"""What is said of tables and of what follows from them: lines of plain text."""

import heapq
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from subtune.config import Config
from subtune.core.errors import cut
from subtune.init.choosing import Settings
from subtune.init.defaults import DEFAULTS
from subtune.init.labels import Labels
from subtune.init.models import StartingModel
from subtune.init.tables import Table
from subtune.planning.cost import Estimates
from subtune.planning.cost_table import cost_table
from subtune.planning.plan import Plan
from subtune.tasks import Task
from subtune.tasks.formats.text import shown

# Of columns and of classes a line names so many.
NAMED = 12
# What all jobs but those that train take on two cores of a laptop: tokens, tables, figures.
OTHER_SECONDS = 45
# Cores that other work keeps busy before it is worth a word.
BUSY = 0.8


def without_dev(train: Path) -> str:
    """Why there must be a second file, and how to make one of the first."""
    rest, fifth = (shlex.quote(f"{train.stem}-{part}{train.suffix}") for part in ("train", "dev"))
    header = "" if train.suffix == ".jsonl" else "NR == 1 || "
    file = shlex.quote(str(train))
    return (
        "--dev: missing, and needed: rows to judge by, which no run trains on. Where no cell has a "
        f"line break this takes every fifth: awk '{header}NR % 5 == 0' {file} > {fifth}; "
        f"awk 'NR % 5' {file} > {rest}"
    )


def of_tables(train: Table, dev: Table) -> Iterator[str]:
    """Rows and columns."""
    columns = listed_shortly(train.columns)
    yield f"{train.path}: {len(train.rows):,} rows to train on; columns {columns}"
    yield f"{dev.path}: {len(dev.rows):,} rows to judge by"


def of_texts(task: Task, is_guessed: bool) -> str:
    """Which columns are read."""
    columns = " and ".join(map(shown, task.text))
    how = "pairs of texts: columns" if len(task.text) == 2 else "text: column"
    return f"{how} {columns}{_guessed(is_guessed, '--text')}"


def of_labels(labels: Labels, is_guessed: bool) -> Iterator[str]:
    """What is predicted, and what an answer without reading scores."""
    yield f"label: column {shown(labels.column)}{_guessed(is_guessed, '--label')}"
    if labels.words is None:
        low, high = min(map(float, labels.train)), max(map(float, labels.train))
        yield f"regression: numbers from {low:g} to {high:g} (if they are classes: --classes)"
    else:
        counts = [f"{cut(word)} ({labels.train[word]:,})" for word in labels.words]
        hint = " (if they are numbers to predict: --regression)" if labels.are_numbers else ""
        yield f"{len(counts)} classes: {listed_shortly(counts)}{hint}"
        answer = listed_shortly([labels.most_frequent])
        yield f"always saying {answer} is right in {labels.floor:.0%} of the dev rows"
    yield f"metrics: {', '.join(labels.metrics)}"


def of_repeats(task: Task, train: dict[str, list], dev: dict[str, list]) -> Iterator[str]:
    """Yield a line if texts of the training rows are dev texts, too."""
    seen = set(map(tuple, task.of_kind.texts(train)))
    texts = list(map(tuple, task.of_kind.texts(dev)))
    repeated = sum(text in seen for text in texts)
    if repeated:
        yield (
            f"{repeated:,} of the {len(texts):,} dev rows are in the training file, too: their "
            "scores say little of new texts"
        )


def of_model(model: StartingModel) -> str:
    """Which model, how large, and why."""
    dimensions = model.dimensions
    size = "of a size that is not known before it is downloaded"
    if dimensions:
        layers, millions = dimensions.num_hidden_layers, dimensions.parameters / 1e6
        size = f"{layers} layers, {millions:,.1f} million parameters"
    return f"model: {model.reference}, {size}: {model.reason}; another with --model"


def of_lengths(counts: np.ndarray, max_length: int, are_counted: bool) -> str:
    """How long texts are, and what of them is read."""
    unit = "tokens" if are_counted else "tokens, guessed by their words"
    return (
        f"lengths: half of the texts have up to {int(np.median(counts))} {unit}, the longest "
        f"{counts[-1]:,}; max_length {max_length}, {_cut_share(counts, max_length)}"
    )


def _cut_share(counts: np.ndarray, max_length: int) -> str:
    longer = np.mean(counts > max_length)
    return f"which cuts {longer:.1%} of them" if longer else "which cuts none"


def of_runs(settings: Settings) -> str:
    """What is trained."""
    methods = ", ".join(f"{name} × {len(rates)}" for name, rates in settings.methods.items())
    return (
        f"{settings.runs} runs: methods × learning rates ({methods}) × {_seeds(settings)}; "
        f"{settings.epochs} epochs each, in batches of {settings.batch_size}"
    )


def _seeds(settings: Settings) -> str:
    return f"{len(settings.seeds)} seeds" if len(settings.seeds) > 1 else "1 seed"


def of_time(
    checked: Config, planned: Plan, estimates: Estimates, at_once: int, load: float
) -> Iterator[str]:
    """How long everything takes on this machine with so many jobs at a time.

    ``load``: how many cores other work kept busy before it was measured.
    """
    if estimates.unknown_models:
        yield (
            f"time: not known before {', '.join(estimates.unknown_models)} is downloaded; measured "
            f"of this machine: {checked.assumptions.teraflops['fp32']:g} teraflops"
        )
        return
    hours = cost_table(checked, planned, estimates, ())["hours"].iloc[-1]
    seconds = [estimates.sweep(sweep).seconds for sweep in planned.sweeps]
    wall = end_of_jobs(seconds, at_once) + OTHER_SECONDS
    jobs = f"{at_once} jobs at a time" if at_once > 1 else "one job at a time"
    yield f"time: about {_in_words(wall)} here, {jobs} ({_in_words(3600 * hours)} of training)"
    if load > BUSY:
        yield f"longer while other work goes on here, which keeps {load:.1f} cores busy now"
    if wall > 3600 * DEFAULTS.long_hours:
        yield (
            "that is long: shorten the lists under `seeds` and `methods`, make `epochs` less, or "
            "add a line `train_rows: 1000` beside them"
        )


def end_of_jobs(seconds: Iterable[float], at_once: int) -> float:
    """When the last of some jobs ends, of which the next one starts once there is room."""
    ends = [0.0] * at_once
    for of_job in seconds:
        heapq.heapreplace(ends, ends[0] + of_job)
    return max(ends)


def _in_words(seconds: float) -> str:
    if seconds < 5400:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minutes" if minutes > 1 else "a minute"
    return f"{seconds / 3600:.1f} hours"


def beside_keys(
    model: StartingModel, task: Task, settings: Settings, counts: np.ndarray, rows: int
) -> dict[str, str]:
    """Comments on some keys of the configuration: why it says what it does, and what it may say."""
    instead = {
        "package": "or `hub: NAME`, or `path: DIRECTORY`",
        "path": "or `hub: NAME`",
        "hub": "or `path: DIRECTORY`",
    }
    others = [metric for metric in task.of_kind.metrics if metric not in task.metrics]
    if task.outputs > 2:
        others = [metric for metric in others if metric != "f1"]
    steps = -(-rows // settings.batch_size) * settings.epochs
    return {
        "model": instead[model.source],
        "metrics": "the first decides" + (f"; also {', '.join(others)}" if others else ""),
        "seeds": "a run for each; three or more make intervals",
        "epochs": f"{steps:,} steps of {rows:,} rows; dev decides which epoch is kept",
        "max_length": f"tokens of a text, {_cut_share(counts, settings.max_length)}",
    }


def listed_shortly(names: Iterable[str]) -> str:
    """Names in one line, of many the first."""
    names = [cut(name) if name.isprintable() else shown(name) for name in names]
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others:,} others" if others > 0 else "")


def _guessed(is_guessed: bool, option: str) -> str:
    return f" (a guess; {option} names another)" if is_guessed else ""
