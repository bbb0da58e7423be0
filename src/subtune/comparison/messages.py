"""Format the lines that `subtune init` and `compare` print about models and settings."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sized

from subtune.comparison import DEFAULTS
from subtune.comparison.look import NAMED, ROWS, Facts, Lengths, describe_cut_texts
from subtune.comparison.settings import StartingModel
from subtune.config.fields import SearchOfRates
from subtune.config.schema import Experiment
from subtune.core.errors import format_count, format_duration, join_names, quote
from subtune.methods import METHODS
from subtune.methods.baselines import Baseline, Estimator

# A line is printed if the size of the dev set differs from the requested size by more than this.
NOTICED = 0.1


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


def format_runs_line(experiment: Experiment, baselines: Mapping[str, Estimator]) -> str:
    """Format the line about the runs: their number, methods, seeds or folds, epochs, batch size.

    ``baselines`` are the user's own.
    """
    seeds, unit = len(experiment.seeds), "folds" if experiment.folds else "seeds"
    runs, searches, groups = 0, False, dict[str, list[str]]()
    known = [*DEFAULTS.methods, *baselines]
    for method in filter(experiment.all_methods.__contains__, known):
        by_model = [experiment.methods_for(model) for model in experiment.models]
        every = [methods[method] for methods in by_model if method in methods]
        selection = baselines.get(method) or METHODS[method]
        reads_texts = isinstance(selection, Baseline) and selection.reads_texts
        models = 1 if reads_texts else len(every)
        # Without learning rates, all seeds have the same result, unless an estimator is seeded.
        is_seeded = isinstance(selection, Estimator) and selection.seeded
        repeated = seeds if experiment.folds or any(every) or is_seeded else 1
        runs += models * repeated
        searches |= any(isinstance(rates, SearchOfRates) for rates in every)
        times = f" × {seeds} {unit}" if repeated > 1 else ""
        times += f" × {models} models" if models > 1 else ""
        groups.setdefault(times, []).append(method)
    methods = ", ".join(f"({', '.join(same)}){times}" for times, same in groups.items())
    epochs = f"{format_count(experiment.epochs, 'epoch')} each"
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
    if any(rates != usual.methods[method] for method, rates in chosen.methods.items()):
        changes.append("no search of learning rates")
    if chosen.max_length < usual.max_length:
        window = f"max_length {chosen.max_length} instead of {usual.max_length}"
        changes.append(f"{window}, {describe_cut_texts(lengths)}")
    if changes:
        yield f"reduced to fit into {format_duration(60 * minutes)}: {'; '.join(changes)}"


def time_lines(
    models: Iterable[StartingModel], seconds: float | None, part: str, minutes: float
) -> Iterator[str]:
    """Yield lines about the estimated time of all runs or of a ``part`` of them, if known."""
    unknown = " and ".join(model.reference for model in models if model.dimensions is None)
    if seconds is None:
        yield f"time: unknown until {unknown} is downloaded"
        return
    without = f", without {unknown}, which is not downloaded yet" if unknown else ""
    how = f"estimated from training steps on this machine{without}"
    yield f"time: about {format_duration(seconds)}{part}, {how}"
    if seconds > 60 * minutes:
        yield (
            f"these runs take longer than {format_duration(60 * minutes)}: use --minutes "
            f"{math.ceil(seconds / 60)} or a smaller model (--model)"
        )
