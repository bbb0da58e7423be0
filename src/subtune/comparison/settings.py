"""The model and the training settings of a first configuration, and the time that these take."""

import importlib.util
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from subtune.comparison import DEFAULTS
from subtune.comparison.user_table import make_name
from subtune.config.fields import HUB_MODELS, REPOSITORY, SearchOfRates
from subtune.config.schema import Config, Experiment, MethodSettings
from subtune.core import process
from subtune.core.errors import SubtuneError, cut, locate_errors
from subtune.core.ids import Value
from subtune.data.sources import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.data.table_files import is_directory
from subtune.methods import METHODS
from subtune.models.model_config import (
    AnyDimensions,
    Pooling,
    count_parameters,
    known_dimensions,
    longest_text,
    read_config,
)
from subtune.models.model_files import (
    lacks_pooler,
    package_directory,
    read_tokenizer,
    unknown_share,
)
from subtune.plan.cost import Estimates
from subtune.plan.inputs import make_data_spec
from subtune.plan.plan import make_plan
from subtune.runs.spec import Labels
from subtune.tasks import TaskSpec
from subtune.tasks.task import TaskSize

# A plan needs a commit of each model on the hub. For an estimate any commit will do.
SOME_COMMIT = "0" * 40
# Seconds of the jobs that do not train (tokens, tables, figures), on two cores of a laptop.
OTHER_SECONDS = 25


class StartingModel(Value):
    """A model of a configuration.

    Attributes:
        source: the key of the model in the configuration.
        reference: the value of this key: a repository, a directory or a package.
        reason: the reason for the choice of the model, in words.
    """

    source: Literal["hub", "path", "package"]
    reference: str
    reason: str

    @property
    def name(self) -> str:
        """The model's name in the configuration."""
        if self.reference in DEFAULTS.model.values():
            return "minilm"
        last = Path(self.reference).resolve().name if self.source == "path" else self.reference
        return make_name(last.rpartition("/")[2], (), "model")

    @property
    def directory(self) -> Path | None:
        """The directory of the model's files, or None if they are not on this machine."""
        if self.source == "package":
            return package_directory(self.reference)
        return Path(self.reference) if self.source == "path" else None

    @cached_property
    def dimensions(self) -> AnyDimensions | None:
        """The model's dimensions, or None if they are unknown until it is downloaded."""
        return known_dimensions(str(self.directory or self.reference))

    @cached_property
    def pooling(self) -> Pooling | None:
        """The pooling that the model needs: ``mean`` if it lacks a pooler."""
        return "mean" if self.directory and lacks_pooler(self.directory) else None

    @property
    def hidden_size(self) -> int:
        """The model's width or, if it is unknown, the width of most encoders."""
        if self.dimensions:
            return self.dimensions.hidden_size
        return DEFAULTS.hidden_sizes.get(self.reference, DEFAULTS.unknown_hidden_size)

    @property
    def labels(self) -> Labels:
        """The setting `labels` of a regression.

        Labels are standardised if the classifier has a bias, or if its dimensions are unknown.
        """
        if self.dimensions is None:
            return "standard"
        *_, last = self.dimensions.shapes(outputs=1)
        return "standard" if last.endswith(".bias") else "raw"

    @property
    def longest_text(self) -> int:
        """Return the largest `max_length` that the model and the library allow."""
        if not self.directory:
            return DEFAULTS.longest_window
        return min(longest_text(read_config(self.directory)), DEFAULTS.longest_window)

    def token_counts(self, texts: Sequence[tuple[str, ...]]) -> tuple[np.ndarray, float]:
        """Count the tokens of each row of a sample, with special tokens.

        Without a local tokenizer, tokens are estimated from the number of words, as in English.

        Args:
            texts: one or two texts per row.

        Returns:
            The numbers of tokens in ascending order, and the share of unknown tokens.

        Raises:
            SubtuneError: the tokenizer cannot be read, or has no token for any word.
        """
        sample = texts[:: -(-len(texts) // DEFAULTS.rows_measured)]
        if self.directory:
            tokenizer = read_tokenizer(self.directory)
            unknown = unknown_share(tokenizer, map(" ".join, sample), self.directory)
            rows = [row if len(row) > 1 else row[0] for row in sample]
            encoded = tokenizer.encode_batch(rows)
            return np.sort([len(tokens) for tokens in encoded]), unknown
        words = [sum(len(text.split()) for text in row) for row in sample]
        return np.sort(np.ceil(SPECIAL_TOKENS + TOKENS_PER_WORD * np.array(words)).astype(int)), 0

    def problems_by_method(self, methods: Iterable[str], task: TaskSpec) -> Mapping[str, str]:
        """Return each method that selects parameters which the model lacks, with its error.

        If the model's dimensions are unknown, no method is returned.
        """
        if self.dimensions is None:
            return {}
        selections = {method: METHODS[method] for method in methods}
        counts = count_parameters({self.name: self.dimensions}, selections, task.outputs)
        problems = counts.dropna(subset="problem")
        return dict(zip(problems["method"], problems["problem"], strict=True))


def find_starting_models(
    names: str | Sequence[str] | None, texts: Sequence[tuple[str, ...]]
) -> tuple[dict[str, StartingModel], dict[str, str]]:
    """Return models by their names in the configuration, and why others are left out.

    Args:
        names: one or several names for `find_starting_model`, or None.
        texts: one or two texts per row, which the models' tokenizers must know.

    Raises:
        SubtuneError: no model can be used.
    """
    found, problems = dict[str, StartingModel](), dict[str, str]()
    several = [names] if names is None or isinstance(names, str) else names
    for name in several:
        try:
            model = find_starting_model(name)
            model.token_counts(texts[: DEFAULTS.rows_tried])
        except SubtuneError as error:
            if len(several) == len(problems) + 1:
                raise
            problems[str(name)] = str(error)
            continue
        number = sum(other.name == model.name for other in found.values())
        found[f"{model.name}-{number + 1}" if number else model.name] = model
    return found, problems


def find_starting_model(name: str | None) -> StartingModel:
    """Return the model with this name, or the default model.

    Args:
        name: a local directory, an installed package or a repository on the hub.

    Raises:
        SubtuneError: the name is none of these, or the directory or package has no model.
    """
    package = DEFAULTS.model["package"]
    if name is None and importlib.util.find_spec(package):
        reason = "small, good at sentences, and installed here: nothing is downloaded"
        return StartingModel(source="package", reference=package, reason=reason)
    if name is None:
        reason = "small and good at sentences; it is downloaded from the hub"
        return StartingModel(source="hub", reference=DEFAULTS.model["hub"], reason=reason)
    with locate_errors("--model"):
        if is_directory(Path(name)):
            read_config(Path(name))
            return StartingModel(source="path", reference=name, reason="a local directory")
        if name.isidentifier() and importlib.util.find_spec(name):
            read_config(package_directory(name))
            return StartingModel(source="package", reference=name, reason="an installed package")
    if not re.match(REPOSITORY, name) or Path(name).exists():
        raise SubtuneError(
            f"--model: found {cut(name)!r}, expected an existing directory, an installed "
            "package, or a repository on the hub such as google-bert/bert-base-cased"
        )
    hub = HUB_MODELS.get(name, name)
    return StartingModel(source="hub", reference=hub, reason="it is downloaded from the hub")


class Times(NamedTuple):
    """Estimated seconds on this machine, with the time for tables.

    Attributes:
        all: seconds of all runs of one model.
        first: seconds of the longest run by itself.
    """

    all: float
    first: float


class Choice(NamedTuple):
    """Settings that take a certain time.

    Attributes:
        experiment: the settings.
        rows: the number of rows of the training table that are used.
    """

    experiment: Experiment
    rows: int

    def count_rows(self, available: Mapping[str, Sized]) -> dict[str, int]:
        """Return the number of rows of each split that are used, of those that are available.

        Of a dev or test set, half as many rows as train are used, but no fewer than
        `fewest_judging`.
        """
        most = max(DEFAULTS.fewest_judging, self.rows // 2)
        counts = {split: min(len(rows), most) for split, rows in available.items()}
        return counts | {"train": self.rows}


def find_learning_rates(methods: Iterable[str], hidden_size: int) -> dict[str, tuple[float, ...]]:
    """Return the learning rates of each method for the width that is nearest to a model's."""
    rates = {}
    for method in methods:
        by_width = DEFAULTS.methods[method]["learning_rates"]
        nearest = min(by_width, key=lambda width: abs(width - hidden_size))
        rates[method] = tuple(by_width[nearest])
    return rates


def list_choices(
    rows: int,
    fewest_rows: int,
    windows: Sequence[int],
    rates: Mapping[str, tuple[float, ...]],
    fixed: Mapping[str, Any],
    least_batch: int = 1,
) -> list[list[Choice]]:
    """Return settings for a table and a model, the best first.

    Each list is one of the reductions of `_reductions`, with fewer and fewer epochs. In the first
    ones of the first list, methods with few parameters train for more epochs than the others.

    Args:
        rows: the number of rows of the training table.
        fewest_rows: a smaller sample is not drawn.
        windows: values of `max_length`, the longest first.
        rates: the methods whose parameters the model has, with their learning rates.
        fixed: the settings that do not depend on time.
        least_batch: the smallest batch that uses the machine well; if it leaves fewer than
            `fewest_steps` steps, batches are smaller.
    """
    found, folds = list[list[Choice]](), fixed.get("folds")
    for number, max_length, seeds, shorter in _reductions(rows, fewest_rows, windows):
        train_rows = count_training_rows(number, folds)
        size = next(s for s in DEFAULTS.sizes if train_rows <= (s["rows"] or train_rows))
        fewest, batch_size = math.ceil(shorter["epochs"] * size["epochs"]), least_batch
        while train_rows * fewest < batch_size * DEFAULTS.fewest_steps:
            batch_size //= 2
        kept = {m: tried for m, tried in rates.items() if m not in shorter["without"]}
        if shorter.get("one_rate"):
            # A method that trains nothing has none.
            kept = {method: tried[len(tried) // 2 :][:1] for method, tried in kept.items()}
        shortest = Experiment(
            **fixed,
            methods={method: write_rates(tried) for method, tried in kept.items()},
            seeds=tuple(range(min(seeds, folds or seeds))),
            epochs=fewest,
            batch_size=max(batch_size, size["batch_size"]),
            max_length=max_length,
            schedule=DEFAULTS.schedule,
            warmup=DEFAULTS.warmup,
        )
        epochs = range(size["epochs"], fewest - 1, -1)
        found.append([Choice(shortest.model_copy(update={"epochs": n}), number) for n in epochs])
    best, longer = found[0][0].experiment, [m for m in rates if m in DEFAULTS.longer["methods"]]
    for times in reversed(DEFAULTS.longer["times"]):
        own = MethodSettings(epochs=times * best.epochs)
        more = best.model_copy(update={"by_method": dict.fromkeys(longer, own)})
        found[0].insert(0, Choice(more, rows))
    return found


def count_training_rows(rows: int, folds: int | None) -> int:
    """Return how many of a table's rows a run trains on, without those of its fold."""
    return rows - (rows // folds if folds else 0)


def write_rates(rates: tuple[float, ...]) -> SearchOfRates | tuple[float, ...] | None:
    """Return learning rates as a setting: several are searched, and no rate is None."""
    return SearchOfRates(search=rates) if len(rates) > 1 else rates or None


def _reductions(
    rows: int, fewest_rows: int, windows: Sequence[int]
) -> Iterator[tuple[int, int, int, Mapping]]:
    """Yield shorter windows, then fewer seeds, rows and methods, and the shortest settings.

    Yields:
        The number of rows, `max_length`, the number of seeds or folds, and an entry of `shorter` or
        `shortest`, or `last_of_all`, in the defaults.
    """
    *longer, last = [window for window in windows if window > DEFAULTS.shortest_window] or windows
    usual, short, fewer_methods = DEFAULTS.shorter
    for window in longer:
        yield rows, window, DEFAULTS.seeds, usual
    for seeds in range(DEFAULTS.seeds, DEFAULTS.fewest_seeds - 1, -1):
        yield rows, last, seeds, usual
    samples = [rows, *(number for number in DEFAULTS.samples if fewest_rows <= number < rows)]
    few = [number for number in samples if number < DEFAULTS.samples_of_every_method]
    for number in [rows, *samples[1 : len(samples) - len(few)]]:
        yield number, last, DEFAULTS.fewest_seeds, short
    for number in few or samples[-1:]:
        for settings in (fewer_methods, *DEFAULTS.shortest):
            yield number, last, DEFAULTS.fewest_seeds, settings
    for settings in (*DEFAULTS.shortest, DEFAULTS.last_of_all):
        yield samples[-1], windows[-1], DEFAULTS.fewest_seeds, settings


def possible_windows(counts: np.ndarray, longest: int) -> list[int]:
    """Return a `max_length` that cuts almost no text, and smaller ones that save time.

    The smaller ones are below the mean length, which determines the estimated time.

    Args:
        counts: the number of tokens of each text.
        longest: the largest `max_length` of the model.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    first = min(-(-needed // multiple) * multiple, longest)
    shorter = [*DEFAULTS.shorter_windows, DEFAULTS.shortest_window]
    return [first, *(length for length in shorter if length < min(first, counts.mean()))]


def estimate_times(config: Config, size: TaskSize) -> Times | None:
    """Estimate the time of a configuration without asking the hub or reading tables.

    Args:
        config: a configuration with one experiment and task. The time is that of the last model.
        size: the size of the task.

    Returns:
        The time, or None if the model's size is unknown.
    """
    [*_, (name, source)], [experiment] = config.models.items(), config.experiments.values()
    if source.hub:
        # The model's pooling is not known, and hardly changes the estimate.
        update = {"revision": SOME_COMMIT, "pooling": source.pooling or "first"}
        source = source.model_copy(update=update)
    [key] = config.experiments
    experiment = experiment.model_copy(update={"models": (name,)})
    only = {"models": {name: source}, "experiments": {key: experiment}}
    config = config.model_copy(update=only)
    task = config.all_tasks()[experiment.tasks[0]]
    rows = make_data_spec(config, task, task.labelled_splits, experiment.folds)
    plan = make_plan(config, {rows.key: size})
    estimates = Estimates(plan)
    if estimates.unknown_models:
        return None
    seconds = [estimates.sweep_cost(sweep).seconds for sweep in plan.sweeps]
    seconds += [estimates.search_cost(job).seconds for job in plan.search_jobs]
    # The reference alone, and the regression on embeddings.
    first = max(cost.seconds for cost in estimates.run_costs.values())
    every = max(sum(seconds) / process.count_jobs_at_once(), *seconds)
    return Times(all=every + OTHER_SECONDS, first=first + OTHER_SECONDS)
