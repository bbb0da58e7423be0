"""Lines that `subtune init` prints about the model, settings and time."""

from collections.abc import Iterator

from subtune.init.choosing import Settings
from subtune.init.look import Lengths, what_is_read
from subtune.init.models import StartingModel
from subtune.planning.cost import in_words


def of_model(model: StartingModel) -> str:
    """Return the line about the model: its size, and why it was chosen."""
    dimensions = model.dimensions
    size = "its size is known once it is downloaded"
    if dimensions:
        layers, millions = dimensions.num_hidden_layers, dimensions.parameters / 1e6
        size = f"{layers} layers, {millions:,.1f} million parameters"
    return f"model: {model.reference}, {size}: {model.reason}; another with --model"


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


def of_shorter(
    usual: Settings, chosen: Settings, lengths: Lengths, minutes: float
) -> Iterator[str]:
    """Yield a line about what was made shorter to fit the minutes, if anything was.

    ``lengths`` are those of the texts in the chosen window.
    """
    left_out = [method for method in usual.methods if method not in chosen.methods]
    changes = [f"without {', '.join(left_out)}"] if left_out else []
    if chosen.train_rows < usual.train_rows:
        changes.append(f"{chosen.train_rows:,} of {usual.train_rows:,} rows train")
    if chosen.epochs < usual.epochs:
        changes.append(f"{chosen.epochs} epochs in place of {usual.epochs}")
    elif chosen.own_epochs != usual.own_epochs:
        changes.append("fewer epochs of single methods")
    if chosen.max_length < usual.max_length:
        window = f"max_length {chosen.max_length} in place of {usual.max_length}"
        changes.append(f"{window}, {what_is_read(lengths)}")
    if changes:
        yield f"shorter, to fit into {in_words(60 * minutes)}: {'; '.join(changes)}"


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
