"""Estimates of time, memory and disk before anything runs. No result depends on them."""

import math
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass
from functools import cache
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.config import Config
from subtune.core.layout import Layout
from subtune.data.batches import CHECKPOINTS_KEPT, CPU_TOKENS, EVALUATION_TOKENS
from subtune.models.dimensions import AnyDimensions, dimensions_of, fields_of
from subtune.models.files import head_by
from subtune.planning.plan import Plan
from subtune.selections.kind import Work
from subtune.selections.specs import FisherSpec, Fit, Precision, RunSpec, TokensSpec

if TYPE_CHECKING:
    import pandas as pd

FLOAT_BYTES = 4
# Main memory of Python, torch and CUDA.
PROCESS_MB = 3000
# Copies of the weights: read from the file, used in training, and used in evaluation.
COPIES_OF_MODEL = 3
# Copies of the trained values: gradient, the optimiser's two averages, the best epoch's values.
COPIES_OF_TRAINED = 4
FISHER_BATCH = 16
# The number of whole runs that a search for a learning rate trains on average.
RUNS_OF_A_SEARCH = 3.5
# Bytes on disk per evaluated row, for its prediction, history and scores.
BYTES_OF_A_PREDICTION = 24
# The largest share of a model's parameters in vectors and low-rank updates.
SMALL_SHARE = 0.03
# Columns of the table of costs, and the name of its last row.
COLUMNS = ("experiment", "runs", "sweeps", "jobs", "tokens", "flops", "hours", "gigabytes")
TOTAL = "all, each once"


@dataclass(frozen=True)
class Cost:
    """Tokens that are trained on or evaluated, operations, seconds, and bytes on disk."""

    tokens: float = 0
    flops: float = 0
    seconds: float = 0
    bytes: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))


class Estimates:
    """Costs of a plan's stages. Each cost is computed once."""

    def __init__(self, config: Config, plan: Plan):
        self._plan = plan
        self._assumed = config.assumptions
        # The cost of starting a job.
        self.start = Cost(seconds=60 * self._assumed.start_minutes)
        self.run = cache(self._run)
        self._dimensions = cache(self._dimensions_of)
        self._fields = cache(lambda model: fields_of(plan.locations[model]))
        self._parameters = cache(lambda model: self._dimensions(model).parameters)

    @property
    def unknown_models(self) -> list[str]:
        """Locations of models that are not downloaded yet and therefore count as BERT-large."""
        locations = set(self._plan.locations.values())
        return sorted(location for location in locations if dimensions_of(location) is None)

    def sweep(self, sweep: str) -> Cost:
        """Return the cost of a sweep's runs and of starting its job."""
        return sum((self.run(run) for run in self._plan.sweeps[sweep].runs), self.start)

    def search(self, search: str) -> Cost:
        """Return the cost of a search for a learning rate and of starting its job.

        A planned run that the search also trains counts with its sweep.
        """
        spec = self._plan.searches[search].run
        planned = {key: of.run for key, of in self._plan.runs.items() if of.search == search}
        runs = RUNS_OF_A_SEARCH - (spec in planned.values())
        return (
            Cost(*(runs * amount for amount in astuple(self.run(next(iter(planned)))))) + self.start
        )

    def checkpoints(self, sweep: str) -> float:
        """Return the largest size of a sweep's checkpoints in bytes."""
        largest = max(self._trained_bytes(run) for run in self._plan.sweeps[sweep].runs)
        return CHECKPOINTS_KEPT * COPIES_OF_TRAINED * largest

    def fisher(self, fisher: str) -> Cost:
        """Return the cost of one task's Fisher information."""
        spec = self._plan.fishers[fisher]
        rows = self._plan.size_of(spec.tokens).train_rows
        examples = rows * self._plan.examples_of_a_row(spec.tokens)
        examples = min(spec.rows or examples, examples)
        flops = Work.MATRICES.value * examples * self._forward_flops(spec.tokens)
        seconds = self._seconds(flops, examples / FISHER_BATCH, spec.tokens, "fp32")
        return Cost(examples * self._length(spec.tokens), flops, seconds) + self.start

    def train_scores(self, runs: Iterable[str]) -> Cost:
        """Return the cost of scoring runs on their training rows."""
        return sum((self._evaluation(self._plan.rows_of(run), run) for run in runs), self.start)

    def test_predictions(self, runs: Iterable[str]) -> Cost:
        """Return the cost of predicting the test rows of the runs' tasks."""
        rows = (
            (self._plan.size_of(self._plan.runs[run].run.tokens).test_rows, run) for run in runs
        )
        return sum((self._evaluation(*tested) for tested in rows), self.start)

    def minutes(self, cost: Cost, attempt: int = 1) -> int:
        """Return the minutes to ask a scheduler for; each attempt asks for more.

        A sweep that needs more than the cluster allows continues from its checkpoint.
        """
        needed = self._assumed.time_margin * attempt * cost.seconds / 60
        return min(math.ceil(needed) + 10, 60 * self._assumed.longest_job_hours)

    def memory(self, spec: RunSpec | FisherSpec, attempt: int = 1) -> int:
        """Return the megabytes of main memory to ask for, for a sweep's runs or Fisher information.

        Each further attempt adds half of the first attempt's memory.
        """
        tokens = spec.tokens
        batch = spec.recipe.batch_size if isinstance(spec, RunSpec) else FISHER_BATCH
        model = self._dimensions(tokens.tokenizer)
        # Numbers per token that a layer keeps for the backward pass.
        layer = 8 * model.hidden_size + 3 * model.intermediate_size
        layer += 2 * model.num_attention_heads * tokens.max_length
        tokens_at_once = max(CPU_TOKENS, batch * tokens.max_length)
        floats = (COPIES_OF_MODEL + COPIES_OF_TRAINED) * self._parameters(tokens.tokenizer)
        floats += tokens_at_once * model.num_hidden_layers * layer
        megabytes = PROCESS_MB + FLOAT_BYTES * floats / 1e6 + self._examples_mb(tokens)
        return _after(attempt, megabytes)

    def tokens_memory(self, tokens: str, attempt: int = 1) -> int:
        """Return the megabytes for making a task's token ids."""
        return _after(attempt, 1000 + self._examples_mb(self._plan.tokens[tokens]))

    def _examples_mb(self, tokens: TokensSpec) -> float:
        # An example is two numpy arrays of 64-bit integers, with about 100 bytes of overhead each.
        examples = self._plan.size_of(tokens).all_rows * self._plan.examples_of_a_row(tokens)
        return examples * 2 * (100 + 8 * self._length(tokens)) / 1e6

    def _length(self, tokens: TokensSpec) -> float:
        """Return the number of tokens of an average example."""
        return min(self._plan.size_of(tokens).tokens, tokens.max_length)

    def _forward_flops(self, tokens: TokensSpec) -> float:
        """Return the operations of a forward pass of an average example."""
        model = self._dimensions(tokens.tokenizer)
        head, pooling = tokens.data.task.of_kind.head, self._plan.models[tokens.tokenizer].pooling
        fields = self._fields(tokens.tokenizer)
        if fields:
            head = head_by(pooling, head, fields)
        return model.forward_flops(self._length(tokens), head)

    def _run(self, run: str) -> Cost:
        spec = self._plan.runs[run].run
        tokens, recipe = spec.tokens, spec.recipe
        judging = self._plan.size_of(tokens, recipe.fold).evaluation_rows
        if isinstance(recipe, Fit):
            return self._evaluation(self._plan.rows_of(run) + judging, run)
        examples = self._plan.rows_of(run) * self._plan.examples_of_a_row(tokens)
        epochs = recipe.epochs
        flops = self._plan.work(run).value * examples * epochs * self._forward_flops(tokens)
        steps: float = math.ceil(examples / recipe.batch_size) * epochs
        if not self._plan.trains_alone(run):
            steps /= self._assumed.runs_side_by_side
        trained = Cost(
            examples * self._length(tokens) * epochs,
            flops,
            self._seconds(flops, steps, tokens, recipe.precision),
            self._trained_bytes(run) + judging * BYTES_OF_A_PREDICTION,
        )
        return trained + self._evaluation(judging * epochs, run)

    def _evaluation(self, rows: float, run: str) -> Cost:
        spec = self._plan.runs[run].run
        examples = rows * self._plan.examples_of_a_row(spec.tokens)
        tokens = examples * self._length(spec.tokens)
        flops = examples * self._forward_flops(spec.tokens)
        # A forward pass launches a third of a training step's kernels.
        steps = tokens / EVALUATION_TOKENS / 3
        return Cost(tokens, flops, self._seconds(flops, steps, spec.tokens, spec.recipe.precision))

    def _seconds(
        self, flops: float, steps: float, tokens: TokensSpec, precision: Precision
    ) -> float:
        teraflops = self._assumed.teraflops
        layers = self._dimensions(tokens.tokenizer).num_hidden_layers
        seconds_per_step = self._assumed.milliseconds_per_layer / 1e3 * layers
        speed = 1e12 * teraflops.get(precision, teraflops["fp32"])
        return flops / speed + steps * seconds_per_step

    def _trained_bytes(self, run: str) -> float:
        share = 1 if self._plan.trains_alone(run) else SMALL_SHARE
        return share * self._parameters(self._plan.runs[run].run.model.id) * FLOAT_BYTES

    def _dimensions_of(self, model: str) -> AnyDimensions:
        location = self._plan.locations[model]
        dimensions = dimensions_of(location) or dimensions_of("bert-large-cased")
        assert dimensions is not None
        return dimensions


def in_words(seconds: float) -> str:
    """Return a time in hours, minutes or seconds."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return "a minute" if seconds >= 55 else f"{max(seconds, 1):.0f} seconds"


def _after(attempt: int, megabytes: float) -> int:
    return int(megabytes * (1 + 0.5 * (attempt - 1)))


def cost_table(
    config: Config, plan: Plan, estimates: Estimates, with_information: Collection[str]
) -> "pd.DataFrame":
    """Return one row per experiment, and one for all, in which shared runs count once.

    ``with_information`` names the experiments that show Fisher information. The columns are
    `COLUMNS`. ``jobs`` is the number of jobs that the Slurm profile submits: one per sweep, one per
    search, one per task's Fisher information, one per model that predicts test rows, and one for
    all token ids.
    ``tokens`` counts trained and evaluated tokens, ``hours`` is the time on the assumed device, and
    ``gigabytes`` is the size of the run records.
    """
    import pandas as pd

    # Runs, sweeps, Fisher information, and each model's runs that predict test rows.
    parts: dict[str, list[set]] = {}
    for name, experiment in config.experiments.items():
        tasks = [task for task in experiment.tasks if config.is_submitted(task)]
        reads = name in with_information or experiment.fractions
        fishers = plan.experiment_fishers[name].values() if reads else ()
        tests = {
            (name, *(run for task in tasks for run in plan.runs_on(name, model, task).values()))
            for model in (experiment.models if tasks else ())
        }
        runs = {planned.key for planned in plan.experiments[name]}
        parts[name] = [runs, {*plan.sweeps_of(name)}, {fisher.key for fisher in fishers}, tests]
    parts[TOTAL] = [set().union(*sets) for sets in zip(*parts.values(), strict=True)]
    rows = []
    for name, (runs, sweeps, keys, tests) in parts.items():
        searches = plan.searches_of(*sweeps)
        costs = [estimates.run(run) for run in sorted(runs)]
        costs += [estimates.search(search) for search in searches]
        costs += [estimates.fisher(key) for key in sorted(keys)]
        costs += [estimates.test_predictions(predicting) for _, *predicting in sorted(tests)]
        cost = sum(costs + [estimates.start] * len(sweeps), Cost())
        numbers = len(runs), len(sweeps), len(sweeps) + len(searches) + len(keys) + len(tests) + 1
        amounts = cost.tokens, cost.flops, cost.seconds / 3600, cost.bytes / 1e9
        rows.append((name, *numbers, *amounts))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def measured(
    layout: Layout, sweeps: Iterable[str], estimates: Estimates
) -> list[tuple[str, float, float]]:
    """Return each finished sweep's key, its last attempt's seconds, and the estimated seconds."""
    import pandas as pd

    benchmarks = {sweep: Path(layout.benchmark("train", sweep)) for sweep in sweeps}
    return [
        (sweep, float(pd.read_csv(path, sep="\t")["s"].iloc[0]), estimates.sweep(sweep).seconds)
        for sweep, path in benchmarks.items()
        if path.is_file()
    ]
