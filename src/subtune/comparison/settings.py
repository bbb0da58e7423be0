"""Choose the models and settings of a first configuration, and estimate the training time."""

import importlib.util
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from subtune.comparison import DEFAULTS
from subtune.comparison.user_table import make_name
from subtune.config.fields import HUB_MODELS, REPOSITORY, SearchOfRates
from subtune.config.schema import Config, Experiment
from subtune.core import process
from subtune.core.errors import SubtuneError, locate_errors, shorten
from subtune.data.sources import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.data.table_files import is_directory
from subtune.methods import METHODS
from subtune.models.dimensions import AnyDimensions, count_parameters, known_dimensions
from subtune.models.model_config import (
    Pooling,
    list_parts_left_out,
    longest_text,
    read_model_config,
    read_pooling,
)
from subtune.models.model_files import (
    lacks_head,
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

# A plan needs a commit for each model on the hub. For an estimate, any commit suffices.
SOME_COMMIT = "0" * 40
# Maps the methods of a model to the setting of their learning rates: a search, a single rate, or
# None for the baselines, which train nothing in the encoder.
Rates = Mapping[str, SearchOfRates | tuple[float, ...] | None]
# Seconds that jobs without training (tokens, tables, figures) take on two cores of a laptop.
OTHER_SECONDS = 25


@dataclass(frozen=True)
class StartingModel:
    """A pretrained model of a first configuration.

    Attributes:
        source: the key in the configuration that names the origin of the model.
        reference: the value of this key: a repository, a directory or a package.
        reason: the reason for choosing this model.
    """

    source: Literal["hub", "path", "package"]
    reference: str
    reason: str

    @property
    def name(self) -> str:
        if self.reference in DEFAULTS.model.values():
            return "minilm"
        last = Path(self.reference).resolve().name if self.source == "path" else self.reference
        return make_name(last.rpartition("/")[2], (), "model")

    @property
    def directory(self) -> Path | None:
        """The directory of the model's files, or None if the model is not downloaded yet."""
        if self.source == "package":
            return package_directory(self.reference)
        return Path(self.reference) if self.source == "path" else None

    @cached_property
    def dimensions(self) -> AnyDimensions | None:
        """The dimensions of the model, or None if they are unknown before the download."""
        return known_dimensions(str(self.directory or self.reference))

    @cached_property
    def pooling(self) -> Pooling | None:
        """The setting `pooling` that the model needs: ``mean`` without a pooler, otherwise None."""
        return "mean" if self.directory and lacks_pooler(self.directory) else None

    @cached_property
    def notes(self) -> list[str]:
        """Sentences about parts of the model that are left out, or that its files lack."""
        if not (self.directory and self.dimensions):
            return []
        notes = []
        if parts := list_parts_left_out(self.directory, self.dimensions.is_decoder):
            pooling = self.pooling or read_pooling(self.directory)
            tokens = "the mean of all tokens" if pooling == "mean" else "one token of a text"
            notes.append(
                f"used without {' and '.join(parts)} of sentence-transformers; its classifier "
                f"and embeddings are computed from {tokens}"
            )
        if lacks_head(self.directory):
            notes.append(
                "its files lack the head below the classifier, which is initialised randomly and "
                "trained with the classifier"
            )
        # Names in a model's files can contain line breaks.
        return [" ".join(note.split()) for note in notes]

    @property
    def hidden_size(self) -> int:
        """The hidden size of the model or, if it is unknown, of most encoders."""
        if self.dimensions:
            return self.dimensions.hidden_size
        return DEFAULTS.hidden_sizes.get(self.reference, DEFAULTS.unknown_hidden_size)

    def choose_label_scale(self) -> Labels:
        """Choose the setting `labels` of a regression: raw only if the classifier has no bias."""
        if self.dimensions is None:
            return "standard"
        *_, last = self.dimensions.shapes(outputs=1)
        return "standard" if last.endswith(".bias") else "raw"

    @property
    def longest_text(self) -> int:
        """The largest `max_length` that the model and the library allow."""
        if not self.directory:
            return DEFAULTS.longest_window
        return min(longest_text(read_model_config(self.directory)), DEFAULTS.longest_window)

    def token_counts(self, texts: Sequence[tuple[str, ...]]) -> tuple[np.ndarray, float]:
        """Count the tokens in a sample of texts, and compute the share of unknown tokens.

        The counts are in ascending order. Without a tokenizer, they are estimated from the numbers
        of words, as for English text. A tokenizer that knows no token raises a `SubtuneError`.
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

    def problems_by_method(self, task: TaskSpec) -> dict[str, str]:
        """Map each method whose parameters the model lacks to an error message."""
        if self.dimensions is None:
            return {}
        selections = {method: METHODS[method] for method in DEFAULTS.methods}
        counts = count_parameters({self.name: self.dimensions}, selections, task.outputs)
        problems = counts.dropna(subset="problem")
        return dict(zip(problems["method"], problems["problem"], strict=True))


def find_starting_models(
    names: Sequence[str] | None, texts: Sequence[tuple[str, ...]]
) -> tuple[dict[str, StartingModel], dict[str, str]]:
    """Find the models that a user names, and check their tokenizers on some texts.

    Returns:
        The models by their names in the configuration, in alphabetical order, and a mapping from
        the given name of each unusable model to an error message.

    Raises:
        SubtuneError: no model can be used.
    """
    models, problems = dict[Any, StartingModel](), dict[str, str]()
    given: Sequence[str | None] = names or [None]
    for name in dict.fromkeys(given):
        try:
            model = find_starting_model(name)
            model.token_counts(texts[: DEFAULTS.rows_tried])
        except SubtuneError as error:
            problems[str(name)] = str(error)
            continue
        place = model.directory.resolve() if model.directory else model.reference
        if place in models:
            problems[str(name)] = f"it is the same model as {models[place].reference}"
        models.setdefault(place, model)
    if not models:
        raise SubtuneError(next(iter(problems.values())))
    found = dict[str, StartingModel]()
    for model in sorted(models.values(), key=lambda model: (model.name, model.reference)):
        numbered = (f"{model.name}-{number}" for number in itertools.count(2))
        free = (name for name in itertools.chain([model.name], numbered) if name not in found)
        found[next(free)] = model
    return found, problems


def find_starting_model(name: str | None) -> StartingModel:
    """Find a local directory, an installed package, a hub repository, or the default model.

    Raises:
        SubtuneError: there is no directory, package or repository with this name, or the directory
            or package contains no model.
    """
    package = DEFAULTS.model["package"]
    if name is None and importlib.util.find_spec(package):
        reason = "small, suited to sentences, and installed already"
        return StartingModel("package", package, reason)
    if name is None:
        reason = "small and suited to sentences; to be downloaded from the hub"
        return StartingModel("hub", DEFAULTS.model["hub"], reason)
    with locate_errors("--model"):
        if is_directory(Path(name)):
            read_model_config(Path(name))
            return StartingModel("path", name, "a local directory")
        if name.isidentifier() and importlib.util.find_spec(name):
            read_model_config(package_directory(name))
            return StartingModel("package", name, "an installed package")
    if not re.match(REPOSITORY, name) or Path(name).exists():
        raise SubtuneError(
            f"--model: found {shorten(name)!r}, expected an existing directory, an installed "
            "package, or a repository on the hub such as google-bert/bert-base-cased"
        )
    return StartingModel("hub", HUB_MODELS.get(name, name), "to be downloaded from the hub")


class Reduction(NamedTuple):
    """Settings that save time. They apply to all models.

    Attributes:
        rows: the number of rows of the training table that are used.
        seeds: the number of seeds or folds.
        without: the methods that are left out.
        one_rate: whether each method has one learning rate instead of a search.
    """

    rows: int
    max_length: int
    seeds: int
    one_rate: bool = True
    without: Collection[str] = ()

    def reduce_rates(self, rates: Rates) -> Rates:
        """Leave out methods and learning rates from the learning rates of one model."""
        kept = {method: tried for method, tried in rates.items() if method not in self.without}
        if self.one_rate:
            for method, tried in kept.items():
                if isinstance(tried, SearchOfRates):
                    kept[method] = (tried.search[len(tried.search) // 2],)
        return kept


class CandidateSettings(NamedTuple):
    """A possible choice of the settings and of the number of training rows.

    ``with_every_run`` is the experiment with all seeds and searches, which `compare` plans.
    """

    experiment: Experiment
    rows: int
    with_every_run: Experiment

    def choose_row_counts(self, available: Mapping[str, Sized]) -> dict[str, int]:
        """Choose how many rows of each split are used.

        At most ``max(fewest_judging, rows / 2)`` rows of a dev or test set are used.
        """
        most = max(DEFAULTS.fewest_judging, self.rows // 2)
        counts = {split: min(len(rows), most) for split, rows in available.items()}
        return counts | {"train": self.rows}


def nearest_learning_rates(methods: Iterable[str], hidden_size: int) -> Rates:
    """Look up the learning rates of each method, for the hidden size nearest to ``hidden_size``."""
    found = dict[str, SearchOfRates | tuple[float, ...] | None]()
    for method in methods:
        by_width = DEFAULTS.methods[method]["learning_rates"]
        rates = tuple(by_width[min(by_width, key=lambda width: abs(width - hidden_size))])
        found[method] = SearchOfRates(search=rates) if len(rates) > 1 else rates or None
    return found


def list_choices(
    rows: int,
    classes: int,
    windows: Sequence[int],
    rates: Mapping[str, Rates],
    fixed: Mapping[str, Any],
) -> list[CandidateSettings]:
    """List possible settings for a table and some models, from the best to the fastest.

    There is one for each reduction of `list_reductions`. ``classes`` is 0 if there are no classes,
    ``rates`` maps each model to its learning rates, and ``fixed`` has the settings that do not
    depend on the time limit.
    """
    folds, times_more = fixed.get("folds"), max(1, classes / DEFAULTS.usual_classes)

    def build_experiment(reduction: Reduction) -> Experiment:
        train_rows = count_training_rows(reduction.rows, folds)
        known = (s for s in DEFAULTS.sizes if train_rows <= (s["rows"] or math.inf) * times_more)
        size = next(known)
        return Experiment(
            **fixed,
            **method_settings({model: reduction.reduce_rates(own) for model, own in rates.items()}),
            seeds=tuple(range(min(reduction.seeds, folds or reduction.seeds))),
            epochs=size["epochs"],
            batch_size=size["batch_size"],
            max_length=reduction.max_length,
            left_out=tuple(m for m in reduction.without if any(m in own for own in rates.values())),
            schedule=DEFAULTS.schedule,
            warmup=DEFAULTS.warmup,
        )

    choices = []
    for reduction in list_reductions(rows, DEFAULTS.rows_per_class * classes, windows):
        every_run = reduction._replace(seeds=DEFAULTS.seeds, one_rate=False)
        experiments = map(build_experiment, (reduction, every_run))
        choices.append(CandidateSettings(next(experiments), reduction.rows, *experiments))
    return choices


def method_settings(rates: Mapping[str, Rates]) -> dict[str, Any]:
    """Return the settings ``methods`` and ``by_model`` of an experiment, from each model's rates.

    ``methods`` has the methods that all models support, with the learning rates for the first
    model. For the other models, ``by_model`` has the methods and rates that differ.
    """
    [first, *others] = rates.values()
    shared = {m: tried for m, tried in first.items() if all(m in own for own in others)}
    by_model = {
        model: {m: tried for m, tried in own.items() if m not in shared or tried != shared[m]}
        for model, own in rates.items()
    }
    differing = {model: {"methods": own} for model, own in by_model.items() if own}
    return {"methods": shared, "by_model": differing}


def count_training_rows(rows: int, folds: int | None) -> int:
    """Compute the number of training examples of a run, without the fold on which it is scored."""
    return rows - (rows // folds if folds else 0)


def list_reductions(rows: int, fewest_rows: int, windows: Sequence[int]) -> list[Reduction]:
    """List reductions: no search and fewer seeds, then shorter texts, fewer rows, fewer methods.

    The number of epochs is never reduced: methods are compared after they have learned.
    """
    *longer, last = [window for window in windows if window > DEFAULTS.shortest_window] or windows
    most = DEFAULTS.largest_share * rows
    samples = [rows, *(number for number in DEFAULTS.samples if fewest_rows <= number <= most)]
    large = [n for n in samples if n < rows and n >= DEFAULTS.samples_of_every_method]
    # A table whose smallest sample is large is also trained with fewer methods.
    small = [n for n in samples if not large or n < large[-1]] or samples[-1:]
    fewest = DEFAULTS.fewest_seeds
    left_out = [DEFAULTS.left_out[:number] for number in range(1, len(DEFAULTS.left_out) + 1)]
    return [
        Reduction(rows, windows[0], DEFAULTS.seeds, one_rate=False),
        *(Reduction(rows, windows[0], n) for n in range(DEFAULTS.seeds, fewest - 1, -1)),
        *(Reduction(rows, window, fewest) for window in [*longer, last][1:]),
        *(Reduction(number, last, fewest) for number in large),
        *(Reduction(n, last, fewest, without=names) for n in small for names in left_out),
        *(Reduction(small[-1], w, fewest, without=left_out[-1]) for w in windows[-1:] if w != last),
    ]


def choose_max_lengths(counts: np.ndarray, longest: int) -> list[int]:
    """Choose a `max_length` that truncates almost no text, and smaller values that save time.

    The smaller values are below the mean length, because the estimated time depends on the mean.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    first = min(-(-needed // multiple) * multiple, longest)
    shorter = [*DEFAULTS.shorter_windows, DEFAULTS.shortest_window]
    return [first, *(length for length in shorter if length < min(first, counts.mean()))]


def estimate_seconds(
    config: Config, experiment: Experiment, size: TaskSize, tokens: Mapping[str, float]
) -> float | None:
    """Estimate the seconds of an experiment, without requests to the hub or reading tables.

    ``tokens`` maps the name of each model to its mean number of tokens per text. Other models are
    left out, because their size is unknown. Without a model, the result is None.
    """
    if not tokens:
        return None
    models = {name: config.models[name] for name in tokens}
    for name, source in models.items():
        if source.hub:
            # The pooling is unknown before the download, and hardly changes the estimate.
            update = {"revision": SOME_COMMIT, "pooling": source.pooling or "first"}
            models[name] = source.model_copy(update=update)
    experiment = experiment.model_copy(update={"models": tuple(models)})
    experiments = dict.fromkeys(config.experiments, experiment)
    config = config.model_copy(update={"models": models, "experiments": experiments})
    task = config.all_tasks()[experiment.tasks[0]]
    rows = make_data_spec(config, task, task.labelled_splits, experiment.folds)
    plan = make_plan(config, {rows.key: size})
    estimates = Estimates(plan, {plan.model_ids[name]: mean for name, mean in tokens.items()})
    seconds = [estimates.sweep_cost(sweep).seconds for sweep in plan.sweeps]
    seconds += [estimates.search_cost(job).seconds for job in plan.search_jobs]
    return bound_total_seconds(seconds, process.count_jobs_at_once()) + OTHER_SECONDS


def bound_total_seconds(seconds: Sequence[float], workers: int) -> float:
    """Return the most time that workers need for jobs that do not wait for each other's outputs.

    Jobs start in any order, so workers may have to wait for the last job (Graham, 1969).
    """
    if len(seconds) <= workers:
        return max(seconds)
    return (sum(seconds) + (workers - 1) * max(seconds)) / workers
