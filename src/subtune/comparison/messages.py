"""Lines that `subtune look` and `subtune init` print."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sized
from itertools import islice
from pathlib import Path

from subtune.comparison import DEFAULTS
from subtune.comparison.look import Facts, Lengths, SplitFacts
from subtune.comparison.settings import StartingModel, Times
from subtune.comparison.user_table import LabelColumns, is_number, label_names, label_order
from subtune.config.fields import SearchOfRates
from subtune.config.schema import Experiment
from subtune.core.errors import listed, plural, shown
from subtune.data.excel_files import sheet_names
from subtune.models.model_files import unknown_lines

# The most columns or classes in a line, and the most texts that are listed.
NAMED, SHOWN = 12, 3
# How programs write missing values and errors of formulas as text.
NO_VALUES = {
    "nan",
    "nat",
    "<na>",
    "#n/a",
    "#name?",
    "#ref!",
    "#value!",
    "#div/0!",
    "#num!",
    "#null!",
}
ROWS = {"train": "training ", "validation": "dev ", "test": "test "}
DOES = {"train": "train on", "validation": "evaluate on", "test": "judge by, which choose nothing"}


def look_lines(facts: Facts) -> Iterator[str]:
    """Yield a line for each fact about a user's tables."""
    if "sheet" in facts.guessed:
        for part in facts.parts.values():
            yield from sheet_lines(Path(part.path))
    for split, part in facts.parts.items():
        columns = f"; columns {listed(facts.columns, NAMED, 'and')}" if split == "train" else ""
        yield f"{part.path}: {plural(part.rows, 'row')} to {DOES[split]}{columns}"
    yield from _column_lines(facts)
    # If there are no other rows, the training rows give the scores.
    judging = "rows" if facts.judges == "train" else f"{ROWS[facts.judges]}rows"
    if facts.constant is not None:
        yield from _class_lines(facts)
        yield (
            f"always answering {listed([str(facts.most_frequent)])} is right in "
            f"{facts.constant:.1%} of the {judging}"
        )
        yield from _spelling_lines(facts, judging)
    for split, part in facts.parts.items():
        yield from _row_lines(split, part, facts.label)
    yield from _deciding_lines(facts)
    if facts.conflicts:
        rows = sum(len(places) for by in facts.conflicts.values() for places in by.values())
        texts = f"texts with different labels: {len(facts.conflicts):,}, in {rows:,} rows"
        yield f"{texts}; no method can be right in all of these"
    for text, by_label in islice(facts.conflicts.items(), SHOWN):
        labels = (f"{listed([word])} ({places[0]})" for word, places in by_label.items())
        yield f"    {shown(text)}: {listed(labels, SHOWN, 'and')}"
    lengths = facts.lengths
    yield (
        f"lengths: half of the texts have up to {lengths.median:,} tokens"
        f"{'' if lengths.are_counted else ', guessed from their words'}, the longest "
        f"{lengths.longest:,}; max_length {lengths.max_length}, {describe_cut_texts(lengths)}"
    )
    yield from unknown_lines(lengths.unknown)


def sheet_lines(path: Path) -> Iterator[str]:
    """Yield a line if an Excel file has unread sheets."""
    if path.suffix.lower() == ".xlsx" and len(names := sheet_names(path)) > 1:
        every = listed(names, NAMED, "and")
        yield f"{path}: sheet {shown(names[0])} of {every} (the first; --sheet names another)"


def _column_lines(facts: Facts) -> Iterator[str]:
    """Yield lines about the columns of text and label."""
    how = "pairs of texts: columns" if len(facts.text) == 2 else "text: column"
    yield f"{how} {' and '.join(map(shown, facts.text))}{_guess(facts, 'text')}"
    where = f"columns {listed(map(shown, label_names(facts.label)), NAMED, 'and')} of 0 and 1"
    if isinstance(facts.label, str):
        where = f"column {shown(facts.label)}"
        if (
            "label" in facts.guessed
            and facts.label.strip().casefold() not in DEFAULTS.label_columns
        ):
            where += ", the only one that can be it"
    yield f"label: {where}{_guess(facts, 'label')}"
    if facts.numbers:
        low, high = facts.numbers
        yield f"regression: numbers from {low:g} to {high:g} (if they are classes: --classes)"


def _guess(facts: Facts, option: str) -> str:
    return f" (a guess; --{option} names another)" if option in facts.guessed else ""


def _class_lines(facts: Facts) -> Iterator[str]:
    """Yield lines about the number of rows of each class."""
    noun, which, hint = ("class", "es"), "", ""
    if facts.kind == "multilabel":
        noun, which = ("label", "s"), ", any number of them"
        if facts.separators:
            between = " or ".join(map(repr, facts.separators))
            which += f" between {between}"
        if isinstance(facts.label, str):
            hint = " (if each cell is one class: --classes)"
    elif all(map(is_number, facts.parts["train"].labels)):
        hint = " (if they are numbers to predict: --regression)"
    for split, part in facts.parts.items():
        named = [f"{listed([word])} ({number:,})" for word, number in part.labels.items()]
        where, end = ("", hint) if split == "train" else (f" in the {ROWS[split]}rows", "")
        number = plural(len(named), *noun)
        yield f"{number}{which}{where}: {listed(named, NAMED, 'and')}{end}"


def _spelling_lines(facts: Facts, judging: str) -> Iterator[str]:
    """Yield lines about spellings of labels, and about labels that only one file has."""
    for group in facts.joined:
        # Other letters than these are invisible, or look like these.
        yield f"labels that count as one: {', '.join(map(ascii, group))}"
    for group in facts.differing_in_capitals:
        yield f"labels that differ only in capitals: {', '.join(map(shown, group))}"
    train, judges = facts.parts["train"].labels, facts.parts[facts.judges].labels
    for word in sorted(
        {word for part in facts.parts.values() for word in part.labels}, key=label_order
    ):
        if word.casefold() in NO_VALUES:
            yield f"label {shown(word)} is a class here; if it stands for nothing, empty its cells"
        if not train.get(word):
            yield f"label {shown(word)} is in no training row: no run can learn it"
        elif not judges.get(word):
            yield f"label {shown(word)} is in no {judging.removesuffix('s')}: no score includes it"


def _deciding_lines(facts: Facts) -> Iterator[str]:
    """Yield lines about columns that decide the label."""
    for column, (values, share) in facts.deciding.items():
        exceptions = "" if share == 1 else f" in {share:.1%} of the rows"
        advice = ""
        if facts.judges == "train" and "group" in facts.guessed:
            keeps = "keeps the rows of each value together"
            advice = f"; if new texts have other values: --group {shlex.quote(column)} {keeps}"
        yield (
            f"column {shown(column)} decides the label: each of its {values:,} values has one label"
            f"{exceptions}{advice}"
        )


def _row_lines(split: str, part: SplitFacts, label: LabelColumns) -> Iterator[str]:
    """Yield lines about rows without a text or a label, and about rows of another file."""
    if part.left_out:
        left_out = f"{len(part.left_out):,} of {plural(part.rows, 'row')} left out"
        yield f"{part.path}: {left_out}, without a label: {listed(part.left_out, NAMED, 'and')}"
    for column, places in part.missing.items():
        missing = f"{len(places):,}, the first in {places[0]}"
        yield f"{ROWS[split]}rows without {shown(column)}: {missing}"
    if places := part.not_numbers:
        wrong = f"{ROWS[split]}rows whose {listed(map(shown, label_names(label)))} is no number"
        yield f"{wrong}: {len(places):,}, the first in {places[0]}"
    for other, number in part.also_in.items():
        if number:
            rows, verb = plural(part.rows, f"{ROWS[split]}row"), "is" if number == 1 else "are"
            yield (
                f"{number:,} of the {rows} {verb} also in the {ROWS[other]}"
                "file: their scores say little about new texts"
            )


def describe_cut_texts(lengths: Lengths) -> str:
    """Return, in words, the share of texts that are cut and the share of tokens that are read."""
    if not lengths.cut:
        return "which cuts none"
    read = "almost all" if lengths.read >= 0.9995 else f"{lengths.read:.1%}"
    return f"which cuts {lengths.cut:.1%} of them and reads {read} of their tokens"


def fold_lines(facts: Facts, folds: int, runs: int) -> Iterator[str]:
    """Yield lines about a cross-validation, for tables without dev rows.

    Args:
        facts: the facts about the tables.
        folds: the number of folds.
        runs: the number of folds on which a run is scored.
    """
    judged = f"each row is predicted once, by one of {folds} runs that did not train on it"
    if runs < folds:
        judged = f"{runs} of {folds} folds are predicted, each by a run that did not train on it"
    if "test" in facts.parts:
        judged = f"one of {folds} folds chooses each run's epoch, and test rows give the scores"
    yield f"no dev rows: {judged}; --dev names some"
    counts = facts.parts["train"].labels
    if few := [shown(word) for word in counts if counts[word] < folds]:
        can = "some folds have none of them, which can lower F1 and Matthews correlation"
        yield f"labels with fewer rows than folds: {listed(few, NAMED, 'and')}; {can}"


def sample_lines(
    available: Mapping[str, Sized], drawn: Mapping[str, Sized], experiment: Experiment
) -> Iterator[str]:
    """Yield a line if not all rows are used.

    Args:
        available: the rows of each split.
        drawn: those that are used.
        experiment: the settings.
    """
    asked, used = ({split: len(rows[split]) for split in available} for rows in (available, drawn))
    if asked == used:
        return
    train, folds = used["train"], experiment.folds
    parts = [f"{train:,} of {asked['train']:,} rows, by class"]
    if folds:
        judging = train // folds
        parts = [f"{parts[0]}: {train - judging:,} train, {judging:,} judge, in each of "]
        parts[0] += f"{len(experiment.seeds)} divisions"
    else:
        parts[0] += " train"
    names = {"validation": "dev", "test": "test"}
    parts += [
        f"{used[split]:,} of {asked[split]:,} {name} rows judge"
        for split, name in names.items()
        if used.get(split) != asked.get(split)
    ]
    yield f"{'; '.join(parts)}; more minutes use more"


def model_line(model: StartingModel) -> str:
    """Return the line about the model: its size, and the reason for its choice."""
    size = "its size is known once it is downloaded"
    if dimensions := model.dimensions:
        layers, millions = dimensions.num_hidden_layers, dimensions.parameters / 1e6
        size = f"{plural(layers, 'layer')}, {millions:,.1f} million parameters"
    return f"model: {model.reference}, {size}: {model.reason}; another with --model"


def run_line(experiment: Experiment) -> str:
    """Return the line about the runs."""
    # A method without learning rates trains nothing. No seed changes it, but each fold does.
    methods, folds = experiment.methods, experiment.folds
    repeated = [method for method, rates in methods.items() if rates or folds]
    once = [method for method in methods if method not in repeated]
    others = f", and {' and '.join(once)}" if once else ""
    seeds, own = len(experiment.seeds), experiment.by_method
    longer = f" ({next(iter(own.values())).epochs} of {', '.join(own)})" if own else ""
    searches = any(isinstance(rates, SearchOfRates) for rates in methods.values())
    rates = "the first seed searches each method's" if searches else "each method has one"
    runs, epochs = seeds * len(repeated) + len(once), plural(experiment.epochs, "epoch")
    return (
        f"{plural(runs, 'run')}: methods ({', '.join(repeated)}) × {seeds} "
        f"{'folds' if folds else 'seeds'}{others}; "
        f"{epochs} each{longer}, in batches of {experiment.batch_size}; {rates} "
        "learning rate"
    )


def reduction_lines(
    usual: Experiment, chosen: Experiment, lengths: Lengths, minutes: float
) -> Iterator[str]:
    """Yield a line if settings were reduced to fit into ``minutes``.

    Args:
        usual: the experiment without a time limit.
        chosen: the reduced experiment.
        lengths: the lengths of the texts, with the chosen ``max_length``.
        minutes: the time limit.
    """
    changes = []
    if left_out := [method for method in usual.methods if method not in chosen.methods]:
        changes.append(f"without {', '.join(left_out)}")
    if len(chosen.seeds) < len(usual.seeds):
        unit = "folds" if chosen.folds else "seeds"
        changes.append(f"{len(chosen.seeds)} {unit} in place of {len(usual.seeds)}")
    if chosen.epochs < usual.epochs:
        changes.append(f"{plural(chosen.epochs, 'epoch')} in place of {usual.epochs}")
    elif chosen.epochs == usual.epochs and chosen.by_method != usual.by_method:
        changes.append("fewer epochs of single methods")
    if chosen.max_length < usual.max_length:
        window = f"max_length {chosen.max_length} in place of {usual.max_length}"
        changes.append(f"{window}, {describe_cut_texts(lengths)}")
    if changes:
        yield f"shorter, to fit into {time_in_words(60 * minutes)}: {'; '.join(changes)}"


def time_lines(model: StartingModel, times: Times | None, minutes: float) -> Iterator[str]:
    """Yield lines about the time on this machine, which is None if it cannot be estimated."""
    if times is None:
        yield f"time: not known before {model.reference} is downloaded"
        return
    yield f"time: about {time_in_words(times.all)} here, by the training steps that were timed"
    asked = time_in_words(60 * minutes)
    if times.first > 60 * minutes:
        yield (
            f"{asked}: too short for a single run of every method; --minutes "
            f"{math.ceil(times.first / 60)} has an answer, or a smaller model (--model)"
        )
    elif times.all > 60 * minutes:
        yield (
            f"that is longer than {asked}: `compare` judges what is trained by then; --minutes "
            f"{math.ceil(times.all / 60)} trains everything, or a smaller model (--model) does"
        )


def time_in_words(seconds: float) -> str:
    """Return a time in hours, minutes or seconds."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return "a minute" if seconds >= 55 else plural(max(round(seconds), 1), "second")
