"""Format the lines that `subtune look`, `init` and `compare` print before training."""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from pathlib import Path

from subtune.comparison import DEFAULTS
from subtune.comparison.look import Facts, Lengths, SplitFacts
from subtune.comparison.settings import EstimatedSeconds, StartingModel
from subtune.comparison.user_table import is_number, label_columns, label_sort_key
from subtune.config.fields import SearchOfRates
from subtune.config.schema import Experiment
from subtune.core.errors import format_count, format_duration, join_names, quote
from subtune.data.excel_files import sheet_names
from subtune.methods import METHODS
from subtune.methods.added import TfIdf
from subtune.models.model_files import unknown_lines

# A line names at most `NAMED` columns or classes. At most `SHOWN` conflicts are printed.
NAMED, SHOWN = 12, 3
# The strings that programs write for missing values and formula errors, in lower case.
NO_VALUES = {
    *("nan", "nat", "na", "n/a", "<na>", "null", "(null)", r"\n", "#n/a", "#name?", "#ref!"),
    *("#value!", "#div/0!", "#num!", "#null!"),
}
# A line is printed if the size of the dev set differs from the requested size by more than this.
NOTICED = 0.1
ROWS = {"train": "training ", "validation": "dev ", "test": "test "}
USES = {"train": "training", "validation": "evaluation", "test": "final scores only"}


def look_lines(facts: Facts) -> Iterator[str]:
    """Yield the lines that describe a user's tables."""
    if "sheet" in facts.guessed:
        for part in facts.parts.values():
            yield from sheet_lines(Path(part.path))
    for split, part in facts.parts.items():
        columns = f"; columns {join_names(facts.columns, NAMED, 'and')}" if split == "train" else ""
        yield f"{part.path}: {format_count(part.rows, 'row')} for {USES[split]}{columns}"
    yield from _column_lines(facts)
    # In cross-validation, methods are scored on the training rows.
    scored_rows = "rows" if facts.judges == "train" else f"{ROWS[facts.judges]}set"
    if facts.constant is not None:
        yield from _class_lines(facts)
        yield (
            f"always predicting {quote(str(facts.most_frequent))} is correct for "
            f"{facts.constant:.1%} of the {scored_rows}"
        )
        yield from _spelling_lines(facts)
    for split, part in facts.parts.items():
        yield from _row_lines(split, part)
    yield from _deciding_lines(facts)
    if facts.conflicts:
        rows = sum(len(places) for by in facts.conflicts.values() for places in by.values())
        texts = f"texts with conflicting labels: {len(facts.conflicts):,}, in {rows:,} rows"
        yield f"{texts}; no method can predict all of these labels"
    for text, by_label in islice(facts.conflicts.items(), SHOWN):
        labels = (f"{join_names([word])} ({places[0]})" for word, places in by_label.items())
        yield f"    {quote(text)}: {join_names(labels, SHOWN, 'and')}"
    lengths = facts.lengths
    yield (
        f"lengths: half of the texts have up to {lengths.median:,} tokens"
        f"{'' if lengths.are_counted else ' (estimated from the number of words)'}, the longest "
        f"{lengths.longest:,}; max_length {lengths.max_length}, {describe_cut_texts(lengths)}"
    )
    yield from unknown_lines(lengths.unknown)


def sheet_lines(path: Path) -> Iterator[str]:
    """Yield a line about the sheet that is read, if an Excel file has several sheets."""
    if path.suffix.lower() == ".xlsx" and len(names := sheet_names(path)) > 1:
        every = join_names(names, NAMED, "and")
        yield f"{path}: only the first of the sheets {every} is read; choose another with --sheet"


def _column_lines(facts: Facts) -> Iterator[str]:
    notes = {n: f" (guessed; choose another with --{n})" for n in facts.guessed}
    how = "pairs of texts: columns" if len(facts.text) == 2 else "text: column"
    yield f"{how} {' and '.join(map(quote, facts.text))}{notes.get('text', '')}"
    names = join_names(map(quote, label_columns(facts.label)), NAMED, "and")
    where = f"columns {names}, which contain 0 or 1"
    if isinstance(facts.label, str):
        is_usual = facts.label.strip().casefold() in DEFAULTS.label_columns
        only = ", the only column that can be the label"
        where = f"column {quote(facts.label)}{only if 'label' in notes and not is_usual else ''}"
    yield f"label: {where}{notes.get('label', '')}"
    if facts.numbers:
        low, high = facts.numbers
        hint = "(if each number is a class, add --classes)"
        yield f"regression: numbers from {low:g} to {high:g} {hint}"


def _class_lines(facts: Facts) -> Iterator[str]:
    noun, which, hint = ("class", "es"), "", ""
    if facts.kind == "multilabel":
        noun, which = ("label", "s"), ", any number per row"
        if facts.separators:
            between = " or ".join(map(repr, facts.separators))
            which += f", separated by {between}"
        if isinstance(facts.label, str):
            hint = " (if each cell is one class, add --classes)"
    elif all(map(is_number, facts.parts["train"].labels)):
        hint = " (if these are numbers to predict, add --regression)"
    for split, part in facts.parts.items():
        named = [f"{join_names([word])} ({number:,})" for word, number in part.labels.items()]
        where, end = ("", hint) if split == "train" else (f" in the {ROWS[split]}set", "")
        number = format_count(len(named), *noun)
        yield f"{number}{which}{where}: {join_names(named, NAMED, 'and')}{end}"


def _spelling_lines(facts: Facts) -> Iterator[str]:
    """Yield lines about different spellings of labels, and about labels that are not in a split."""
    for group in facts.joined:
        # The labels differ in invisible or similar-looking characters, which are therefore escaped.
        yield f"labels that are merged into one: {', '.join(map(ascii, group))}"
    for group in facts.alike:
        yield f"labels that look alike, but are different classes: {', '.join(map(quote, group))}"
    train, judges = facts.parts["train"].labels, facts.parts[facts.judges].labels
    for word in sorted(
        {word for part in facts.parts.values() for word in part.labels}, key=label_sort_key
    ):
        if word.casefold() in NO_VALUES:
            yield (
                f"label {quote(word)} is treated as a class; if it stands for a missing label, "
                "leave these cells empty"
            )
        if not train.get(word):
            yield f"label {quote(word)} does not occur in the training set: no run can learn it"
        elif not judges.get(word):
            split = f"{ROWS[facts.judges]}set"
            yield f"label {quote(word)} does not occur in the {split}: no score includes this label"


def _deciding_lines(facts: Facts) -> Iterator[str]:
    for column, (values, share) in facts.deciding.items():
        exceptions = "" if share == 1 else f" in {share:.1%} of the rows"
        advice = ""
        if facts.judges == "train" and "group" in facts.guessed:
            keeps = "to keep the rows of each value in one fold"
            advice = f"; if new texts have other values, add --group {shlex.quote(column)} {keeps}"
        yield (
            f"column {quote(column)} determines the label: each of its {values:,} values has one "
            f"label{exceptions}{advice}"
        )


def _row_lines(split: str, part: SplitFacts) -> Iterator[str]:
    if part.left_out:
        left_out = f"{len(part.left_out):,} of {format_count(part.rows, 'row')} left out"
        named = join_names(part.left_out, NAMED, "and")
        yield f"{part.path}: {left_out} because they have no text or no label: {named}"
    for fault, places in part.faulty.items():
        yield f"{ROWS[split]}rows {fault}: {len(places):,}, the first in {places[0]}"
    for other, number in part.also_in.items():
        if number:
            rows = format_count(part.rows, f"{ROWS[split]}row")
            yield (
                f"{number:,} of the {rows} {'is' if number == 1 else 'are'} also in the "
                f"{ROWS[other]}file: scores on these rows say little about new texts"
            )


def describe_cut_texts(lengths: Lengths) -> str:
    """Format the share of texts that are truncated and the share of tokens that are kept."""
    if not lengths.cut:
        return "which truncates no text"
    read = "almost all" if lengths.read >= 0.9995 else f"{lengths.read:.1%} of all"
    return f"which truncates {lengths.cut:.1%} of the texts and keeps {read} tokens"


def describe_folds(facts: Facts, folds: int, runs: int) -> Iterator[str]:
    """Yield lines about the cross-validation, for tables without a dev set."""
    evaluation = f"each row is predicted once, by the run (one of {folds}) that did not train on it"
    if runs < folds:
        evaluation = (
            f"{runs} of {folds} folds are predicted, each by a run that did not train on it"
        )
    if "test" in facts.parts:
        evaluation = (
            f"each run selects its epoch on the one of {folds} folds on which it does not train; "
            "scores are computed on the test set"
        )
    yield f"no dev set: {evaluation}; to use a dev set, add --dev"
    counts = facts.parts["train"].labels
    if few := [quote(word) for word in counts if counts[word] < folds]:
        effect = "some folds lack these labels, which can lower F1 and Matthews correlation"
        yield f"labels with fewer rows than folds: {join_names(few, NAMED, 'and')}; {effect}"


def dev_set_lines(numbers: Mapping[str, Sized], share: float, group: str | None) -> Iterator[str]:
    """Yield a line if a drawn dev set is much larger or smaller than the user asked for."""
    drawn, rows = len(numbers["validation"]), len(numbers["validation"]) + len(numbers["train"])
    if abs(drawn / rows - share) > max(1 / rows, share * NOTICED):
        together = f"text or {group}" if group else "text"
        yield (
            f"--dev {share:g}: the dev set has {drawn:,} of {rows:,} rows ({drawn / rows:.0%}), "
            f"because rows with the same {together} stay together"
        )


def sample_lines(
    available: Mapping[str, Sized], drawn: Mapping[str, Sized], experiment: Experiment
) -> Iterator[str]:
    """Yield a line about the drawn sample, if it does not contain all available rows."""
    asked, used = ({split: len(rows[split]) for split in available} for rows in (available, drawn))
    if asked == used:
        return
    train, folds = used["train"], experiment.folds
    use = " for training"
    if folds:
        use = (
            f": in each of {len(experiment.seeds)} folds, {train - train // folds:,} for training "
            f"and {train // folds:,} for evaluation"
        )
    parts = [f"a stratified sample of {train:,} of {asked['train']:,} rows{use}"]
    parts += [
        f"{used[split]:,} of {asked[split]:,} rows of the {ROWS[split]}set"
        for split in ("validation", "test")
        if used.get(split) != asked.get(split)
    ]
    yield f"{'; '.join(parts)}; to use more rows, allow more minutes"


def model_line(model: StartingModel) -> str:
    """Format the line about a model: its size, and the reason for choosing this model."""
    size = "size unknown until it is downloaded"
    if dimensions := model.dimensions:
        layers, millions = dimensions.num_hidden_layers, dimensions.parameters / 1e6
        size = f"{format_count(layers, 'layer')}, {millions:,.1f} million parameters"
    return f"model: {model.reference}, {size}: {model.reason}; choose another with --model"


def format_runs_line(experiment: Experiment) -> str:
    """Format the line about the runs: their number, methods, seeds or folds, epochs, batch size."""
    seeds, unit = len(experiment.seeds), "folds" if experiment.folds else "seeds"
    runs, searches, groups = 0, False, dict[str, list[str]]()
    for method in filter(experiment.all_methods.__contains__, DEFAULTS.methods):
        by_model = [experiment.methods_for(model) for model in experiment.models]
        every = [methods[method] for methods in by_model if method in methods]
        models = 1 if isinstance(METHODS[method], TfIdf) else len(every)
        # A method without learning rates is a deterministic regression. All seeds have the same
        # result, so one run is enough.
        repeated = seeds if experiment.folds or any(every) else 1
        runs += models * repeated
        searches |= any(isinstance(rates, SearchOfRates) for rates in every)
        times = f" × {seeds} {unit}" if repeated > 1 else ""
        times += f" × {models} models" if models > 1 else ""
        groups.setdefault(times, []).append(method)
    methods = ", ".join(f"({', '.join(same)}){times}" for times, same in groups.items())
    own = experiment.by_method
    longer = f" ({next(iter(own.values())).epochs} for {', '.join(own)})" if own else ""
    epochs = f"{format_count(experiment.epochs, 'epoch')} each{longer}"
    rates = "one fixed learning rate per method"
    if searches:
        rates = "a search with the first seed chooses the learning rate of each method"
    return (
        f"{format_count(runs, 'run')}: methods {methods}; {epochs}, in batches of "
        f"{experiment.batch_size}; {rates}"
    )


def reduction_lines(
    usual: Experiment, chosen: Experiment, lengths: Lengths, minutes: float
) -> Iterator[str]:
    """Yield a line about the settings that were reduced to fit into the time limit."""
    changes = []
    if left_out := [method for method in usual.all_methods if method not in chosen.all_methods]:
        changes.append(f"without {', '.join(left_out)}")
    if len(chosen.seeds) < len(usual.seeds):
        unit = "folds" if chosen.folds else "seeds"
        changes.append(f"{len(chosen.seeds)} {unit} instead of {len(usual.seeds)}")
    if chosen.epochs < usual.epochs:
        changes.append(f"{format_count(chosen.epochs, 'epoch')} instead of {usual.epochs}")
    elif chosen.epochs == usual.epochs and chosen.by_method != usual.by_method:
        changes.append("fewer epochs for methods with few parameters")
    if chosen.max_length < usual.max_length:
        window = f"max_length {chosen.max_length} instead of {usual.max_length}"
        changes.append(f"{window}, {describe_cut_texts(lengths)}")
    if changes:
        yield f"reduced to fit into {format_duration(60 * minutes)}: {'; '.join(changes)}"


def time_lines(
    models: Iterable[StartingModel], times: EstimatedSeconds | None, part: str, minutes: float
) -> Iterator[str]:
    """Yield lines about the estimated time of all runs or of a ``part`` of them, if known."""
    unknown = " and ".join(model.reference for model in models if model.dimensions is None)
    if times is None:
        yield f"time: unknown until {unknown} is downloaded"
        return
    without = f", without {unknown}, which is not downloaded yet" if unknown else ""
    how = f"estimated from training steps on this machine{without}"
    yield f"time: about {format_duration(times.all)}{part}, {how}"
    asked = format_duration(60 * minutes)
    if times.first > 60 * minutes:
        yield (
            f"{asked} may be too short for one run of the slowest method: use --minutes "
            f"{math.ceil(times.first / 60)} or a smaller model (--model)"
        )
    elif times.all > 60 * minutes:
        yield (
            f"all runs together take longer than {asked}: the answer will use only the runs that "
            f"are finished by then; to finish all runs, use --minutes {math.ceil(times.all / 60)} "
            "or a smaller model (--model)"
        )
