"""What a configuration will cost, before anything runs: time, memory, disk.

Everything follows from the model's dimensions, the task's size, the runs of a job, and the
configuration's `assumptions`. A result never depends on an estimate.
"""

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import cache
from operator import add
from typing import Literal

from subtune.config import Config
from subtune.core.batch_sizes import CHECKPOINTS_KEPT, CPU_TOKENS, EVALUATION_TOKENS
from subtune.models.dimensions import AnyDimensions, dimensions_of
from subtune.planning.jobs import trains_alone, work
from subtune.planning.plan import Plan
from subtune.selections.kind import Work
from subtune.selections.specs import RunSpec, TokensSpec

FLOAT_BYTES = 4
# What Python, torch and its libraries take: on a CPU 0.6 GB, and CUDA's as much again and more.
PROCESS_MB = 3000
# Weights as read and as used, and what evaluation makes of them with a run's values.
COPIES_OF_MODEL = 3
# Gradient, the optimiser's two averages, and the best epoch's values.
COPIES_OF_TRAINED = 4
FISHER_EXAMPLES_OF_A_BATCH = 16
# A run's predictions, history and scores.
BYTES_OF_A_PREDICTION = 24
# What vectors or low-rank updates are of a model, at most.
SMALL_SHARE = 0.03


@dataclass(frozen=True)
class Cost:
    """Tokens of training and evaluation, floating-point operations, seconds, bytes on disk."""

    tokens: float = 0
    flops: float = 0
    seconds: float = 0
    bytes: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))


class Estimates:
    """Costs of a plan's stages. Each is computed once."""

    def __init__(self, config: Config, plan: Plan):
        self._plan = plan
        self._assumed = config.assumptions
        self.run = cache(self._run)
        self._dimensions = cache(self._dimensions_of)
        self._parameters = cache(lambda model: self._dimensions(model).parameters)

    @property
    def unknown_models(self) -> list[str]:
        """Locations of models whose dimensions are not known yet: assumed to be those of the
        largest of the papers' models."""
        locations = set(self._plan.model_locations.values())
        return sorted(location for location in locations if dimensions_of(location) is None)

    def start(self) -> Cost:
        """What every job takes before it computes anything."""
        return Cost(seconds=60 * self._assumed.start_minutes)

    def sweep(self, sweep: str) -> Cost:
        """All runs of a sweep, and its job's start."""
        return sum((self.run(run) for run in self._plan.sweeps[sweep].runs), self.start())

    def checkpoints(self, sweep: str) -> float:
        """Bytes of a sweep's checkpoints at most: of its largest group two."""
        largest = max(self._trained_bytes(run) for run in self._plan.sweeps[sweep].runs)
        return CHECKPOINTS_KEPT * COPIES_OF_TRAINED * largest

    def fisher(self, fisher: str) -> Cost:
        """Fisher information of one task."""
        spec = self._plan.fishers[fisher]
        size, model = self._plan.sizes[spec.tokens.data.key], self._dimensions(spec.model.id)
        examples = size.train_rows * self._examples_of_a_row(spec.tokens)
        examples = min(spec.rows or examples, examples)
        tokens = min(size.tokens, spec.tokens.max_length)
        head = spec.tokens.data.task.of_kind.head
        flops = Work.MATRICES.value * examples * model.forward_flops(tokens, head)
        batches = examples / FISHER_EXAMPLES_OF_A_BATCH
        seconds = self._seconds(flops, batches, model, "fp32")
        return Cost(examples * tokens, flops, seconds) + self.start()

    def train_scores(self, runs: Iterable[str]) -> Cost:
        """Scores of runs on the rows that they were trained on."""
        total = self.start()
        for run in runs:
            spec = self._plan.runs[run]
            rows = self._plan.sizes[spec.tokens.data.key].rows_within(spec.recipe.train_rows)
            total += self._evaluation(rows, spec)
        return total

    def test_predictions(self, runs: Iterable[str]) -> Cost:
        """What runs predict of their tasks' test rows."""
        total = self.start()
        for run in runs:
            spec = self._plan.runs[run]
            total += self._evaluation(self._plan.sizes[spec.tokens.data.key].test_rows, spec)
        return total

    def evaluation_memory(self, run: str, attempt: int = 1) -> int:
        """As `sweep_memory`, for predictions of one run after the other."""
        spec = self._plan.runs[run]
        return self._memory(spec.model.id, spec.tokens.key, False, 1, attempt)

    def minutes(self, cost: Cost, attempt: int = 1) -> int:
        """The time to ask a scheduler for: with a margin, more after every attempt, and at most
        the longest that a cluster gives. A longer sweep goes on from its checkpoint."""
        needed = self._assumed.time_margin * attempt * cost.seconds / 60
        return min(math.ceil(needed) + 10, 60 * self._assumed.longest_job_hours)

    def sweep_memory(self, sweep: str, attempt: int = 1) -> int:
        """Megabytes of main memory to ask for, with or without a GPU: half as much again after
        every attempt."""
        runs = self._plan.sweeps[sweep].runs
        first = self._plan.runs[runs[0]]
        trains_matrices = any(map(self._alone, runs))
        batch = max(self._plan.runs[run].recipe.batch_size for run in runs)
        return self._memory(first.model.id, first.tokens.key, trains_matrices, batch, attempt)

    def fisher_memory(self, fisher: str, attempt: int = 1) -> int:
        """As `sweep_memory`, for the Fisher information of a task."""
        spec = self._plan.fishers[fisher]
        return self._memory(
            spec.model.id, spec.tokens.key, True, FISHER_EXAMPLES_OF_A_BATCH, attempt
        )

    def tokens_memory(self, tokens: str, attempt: int = 1) -> int:
        """As `sweep_memory`, for the token ids of a task."""
        return int((1000 + self._examples_mb(tokens)) * _growth(attempt))

    def _memory(
        self, model_id: str, tokens: str, trains_matrices: bool, batch: int, attempt: int
    ) -> int:
        model = self._dimensions(model_id)
        copies = COPIES_OF_MODEL + COPIES_OF_TRAINED * trains_matrices
        in_pass = max(CPU_TOKENS, batch * self._plan.tokens[tokens].max_length)
        longest = self._plan.tokens[tokens].max_length
        # Of each token, what attention and the activations of a layer keep for the way back.
        layer = 8 * model.hidden_size + 3 * model.intermediate_size
        layer += 2 * model.num_attention_heads * longest
        activations = in_pass * model.num_hidden_layers * layer
        floats = copies * self._parameters(model_id) + activations
        megabytes = PROCESS_MB + FLOAT_BYTES * floats / 1e6 + self._examples_mb(tokens)
        return int(megabytes * _growth(attempt))

    def _examples_of_a_row(self, tokens: TokensSpec) -> int:
        size = self._plan.sizes[tokens.data.key]
        return size.examples_of_a_row(tokens.max_length, tokens.doc_stride)

    def _examples_mb(self, tokens: str) -> float:
        # Of each example two numpy arrays of 64-bit numbers, with a hundred bytes around each.
        spec = self._plan.tokens[tokens]
        size = self._plan.sizes[spec.data.key]
        examples = size.all_rows * self._examples_of_a_row(spec)
        return examples * (2 * (100 + 8 * min(size.tokens, spec.max_length))) / 1e6

    def _run(self, run: str) -> Cost:
        spec = self._plan.runs[run]
        size, model = self._plan.sizes[spec.tokens.data.key], self._dimensions(spec.model.id)
        recipe = spec.recipe
        examples = size.rows_within(recipe.train_rows) * self._examples_of_a_row(spec.tokens)
        tokens = min(size.tokens, spec.tokens.max_length)
        forward = model.forward_flops(tokens, spec.tokens.data.task.of_kind.head)
        epochs = recipe.epochs * recipe.whole_runs
        flops = work(self._plan, run).value * examples * epochs * forward
        steps = math.ceil(examples / recipe.batch_size) * epochs
        beside = 1 if self._alone(run) else self._assumed.runs_side_by_side
        seconds = self._seconds(flops, steps / beside, model, recipe.precision)
        trained = Cost(
            examples * tokens * epochs,
            flops,
            seconds,
            self._trained_bytes(run) + size.evaluation_rows * BYTES_OF_A_PREDICTION,
        )
        return trained + self._evaluation(size.evaluation_rows * epochs, spec)

    def _evaluation(self, rows: float, spec: RunSpec) -> Cost:
        model = self._dimensions(spec.model.id)
        examples = rows * self._examples_of_a_row(spec.tokens)
        tokens = min(self._plan.sizes[spec.tokens.data.key].tokens, spec.tokens.max_length)
        flops = examples * model.forward_flops(tokens, spec.tokens.data.task.of_kind.head)
        batches = examples * tokens / EVALUATION_TOKENS
        # A pass without a way back starts a third of a step's kernels.
        seconds = self._seconds(flops, batches / 3, model, spec.recipe.precision)
        return Cost(examples * tokens, flops, seconds)

    def _seconds(
        self, flops: float, steps: float, model: AnyDimensions, precision: Literal["fp32", "bf16"]
    ) -> float:
        per_second = 1e12 * self._assumed.teraflops[precision]
        overhead = self._assumed.milliseconds_per_layer / 1e3 * model.num_hidden_layers
        return flops / per_second + steps * overhead

    def _alone(self, run: str) -> bool:
        return trains_alone(self._plan, run)

    def _trained_bytes(self, run: str) -> float:
        share = 1 if self._alone(run) else SMALL_SHARE
        return share * self._parameters(self._plan.runs[run].model.id) * FLOAT_BYTES

    def _dimensions_of(self, model: str) -> AnyDimensions:
        location = self._plan.model_locations[model]
        dimensions = dimensions_of(location) or dimensions_of("bert-large-cased")
        assert dimensions is not None
        return dimensions


def _growth(attempt: int) -> float:
    return 1 + 0.5 * (attempt - 1)
