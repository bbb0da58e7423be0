"""Estimates of time, memory and disk before anything runs. No result depends on them.

A table has the pace of each kind of work: a step takes a time per layer, which runs side by side
share, and a time per operation of its forward passes. `subtune init` writes the table of this
machine into the configuration; `paces.yaml` has those of known devices. For a model of another size
the estimate may be wrong by a factor of two.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from operator import add
from typing import TYPE_CHECKING, cast

from subtune.config.schema import Pace, Trains
from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import CHECKPOINTS_KEPT, read_package_yaml
from subtune.methods.selection import Work
from subtune.models.families import Dimensions
from subtune.models.model_config import (
    AnyDimensions,
    choose_head,
    known_dimensions,
    numbers_per_token,
)
from subtune.plan.plan import RUNS_OF_A_SEARCH, Plan
from subtune.runs.spec import FisherSpec, Fit, PlannedRun, RunSpec, TokensSpec
from subtune.tasks.examples import CPU_TRAINING_TOKENS, EVALUATION_TOKENS, GPU_EVALUATION_TOKENS

if TYPE_CHECKING:
    import pandas as pd

FLOAT_BYTES = 4
# Megabytes of main memory that Python, torch and CUDA take.
PROCESS_MB = 3000
# Copies of the weights: read from the file, used in training, and used in evaluation.
COPIES_OF_MODEL = 3
# Copies of the trained values: gradient, the optimiser's two averages, the best epoch's values.
COPIES_OF_TRAINED = 4
FISHER_BATCH = 16
# Seconds to import scikit-learn and to fit a regression to the embeddings of some hundred texts.
FIT_SECONDS = 2
# TF-IDF takes this many seconds for each letter of texts that are read, and of those to which a
# regression is fitted, and at most `LONGEST_FIT` for the fit (`subtune.training.tf_idf.MOST_WORK`).
LETTER_READ, LETTER_FITTED, LONGEST_FIT, LETTERS_PER_TOKEN = 4e-6, 6e-6, 30, 4
# A GPU captures the step of runs side by side for so many shapes of batches. A capture and the
# ordinary step before it take so many seconds per layer (MiniLM and BERT-base on an H200).
SHAPES, CAPTURE = 8, 0.03
# A job asks for this many times the estimated time.
TIME_MARGIN = 2
# Minutes of a job that schedulers start soon, because it fits into gaps.
SHORT_JOB = 240
# Bytes on disk per evaluated row, for its prediction, history and scores.
BYTES_OF_A_PREDICTION = 24
# The largest share of a model's parameters in vectors and low-rank updates.
SMALL_SHARE = 0.03
# A search trains three learning rates side by side and, on average, one more: two in the mean.
RATES_AT_ONCE = 2
# Each kind of step, such as ``low_rank`` of `Work.LOW_RANK`, and its forward passes.
STEP_KINDS: dict[Work, Trains] = {work: cast(Trains, work.name.lower()) for work in Work}
FORWARD_PASSES = {"evaluation": 1.0} | {kind: work.value for work, kind in STEP_KINDS.items()}
# Columns of the table of costs, and the name of its last row.
COLUMNS = ("experiment", "runs", "sweeps", "jobs", "tokens", "flops", "hours", "gigabytes")
TOTAL = "all, each once"


@dataclass(frozen=True)
class Cost:
    """The cost of a job or a run.

    Attributes:
        tokens: the number of tokens on which runs train or are evaluated.
        flops: the number of operations.
        seconds: the time on the assumed machine.
        bytes: the size on disk.
    """

    tokens: float = 0
    flops: float = 0
    seconds: float = 0
    bytes: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))


def find_pace(paces: Mapping[Trains, Pace], kind: Trains) -> Pace:
    """Return the pace of a kind of step. If it was not measured, scale the most similar kind's."""
    if kind in paces:
        return paces[kind]
    nearest = min(paces, key=lambda of: abs(FORWARD_PASSES[of] - FORWARD_PASSES[kind]))
    ratio = FORWARD_PASSES[kind] / FORWARD_PASSES[nearest]
    pace = paces[nearest]
    return Pace(per_layer=ratio * pace.per_layer, per_teraflop=ratio * pace.per_teraflop)


@dataclass(frozen=True)
class Estimates:
    """The costs of a plan's jobs and runs."""

    plan: Plan

    @cached_property
    def paces(self) -> dict[Trains, Pace]:
        """The measured paces, from the configuration or from `paces.yaml`.

        Raises:
            SubtuneError: nothing is known of the device.
        """
        assumed = self.plan.config.assumptions
        if assumed.pace:
            return assumed.pace
        devices = read_package_yaml("subtune.plan", "paces.yaml")
        if assumed.device not in devices:
            known = one_of(assumed.device, devices)
            raise SubtuneError(f"assumptions.device: {known}, or the `pace` of another device")
        return {trains: Pace(**pace) for trains, pace in devices[assumed.device].items()}

    @cached_property
    def dimensions(self) -> dict[str, AnyDimensions]:
        """The dimensions of each model, by id. Unknown models count as BERT-large."""
        large = known_dimensions("bert-large-cased")
        assert large
        return {id: known_dimensions(at) or large for id, at in self.plan.locations.items()}

    @cached_property
    def parameters(self) -> dict[str, int]:
        """The number of each model's parameters, by id."""
        return {id: dimensions.parameters for id, dimensions in self.dimensions.items()}

    @cached_property
    def forward_flops(self) -> dict[str, float]:
        """The operations of a forward pass of an average example, by the key of its token ids."""
        found = {}
        for key, tokens in self.plan.tokens.items():
            dimensions = self.dimensions[tokens.tokenizer]
            pooling = self.plan.models[tokens.tokenizer].pooling
            head = choose_head(pooling, tokens.data.task.of_kind.head, dimensions.model_type)
            found[key] = dimensions.forward_flops(self._mean_length(tokens), head)
        return found

    @cached_property
    def runs_beside(self) -> dict[str, int]:
        """The number of runs that share each run's steps, itself included, by key."""
        sweeps = self.plan.sweeps.values()
        return {key: n for sweep in sweeps for key, n in self._count_beside(sweep).items()}

    @cached_property
    def run_costs(self) -> dict[str, Cost]:
        """The cost of each run, by key."""
        return {
            key: self._run_cost(run, self.runs_beside[key]) for key, run in self.plan.runs.items()
        }

    @property
    def unknown_models(self) -> list[str]:
        """Locations of models that are not downloaded yet and therefore count as BERT-large."""
        locations = set(self.plan.locations.values())
        return sorted(location for location in locations if known_dimensions(location) is None)

    @property
    def start_cost(self) -> Cost:
        """The cost of starting a job."""
        return Cost(seconds=60 * self.plan.config.assumptions.start_minutes)

    def sweep_cost(self, sweep: str) -> Cost:
        """Return the cost of a sweep's runs and of starting its job."""
        return sum((self.run_costs[run.key] for run in self.plan.sweeps[sweep]), self.start_cost)

    def search_cost(self, job: str) -> Cost:
        """Return the cost of a job's searches for learning rates, and of starting the job.

        A planned run that a search also trains counts with its sweep.
        """
        searched = {
            search: [run for run in self.plan.runs.values() if run.search == search]
            for search in self.plan.search_jobs[job]
        }
        first_runs = [runs[0] for runs in searched.values()]
        beside = self._count_beside(first_runs, RATES_AT_ONCE)
        cost = self.start_cost
        for search, runs in searched.items():
            is_planned = any(run.spec == self.plan.searches[search].run for run in runs)
            number = RUNS_OF_A_SEARCH - is_planned
            cost = sum([self._run_cost(runs[0], beside[runs[0].key])] * number, cost)
        return cost

    def checkpoint_bytes(self, sweep: str) -> float:
        """Return the largest size in bytes of the checkpoints of runs side by side."""
        runs = self.plan.sweeps[sweep]
        largest = max(self.runs_beside[run.key] * self._trained_bytes(run) for run in runs)
        return CHECKPOINTS_KEPT * COPIES_OF_TRAINED * largest

    def fisher_cost(self, fisher: str) -> Cost:
        """Return the cost of one task's Fisher information."""
        spec = self.plan.fishers[fisher]
        examples = self.plan.task_size(spec.tokens).train_rows
        examples *= self.plan.examples_per_row(spec.tokens)
        examples = min(spec.rows or examples, examples)
        steps = examples / FISHER_BATCH
        return self._steps_cost("matrices", steps, examples, spec.tokens) + self.start_cost

    def prediction_cost(self, runs: Iterable[str]) -> Cost:
        """Return the cost of predicting the test rows of the runs' tasks."""
        tokens = [self.plan.runs[run].spec.tokens for run in runs]
        costs = (self._evaluation_cost(self.plan.task_size(of).test_rows, of) for of in tokens)
        return sum(costs, self.start_cost)

    def job_minutes(self, cost: Cost) -> int:
        """Return the minutes for which a job's first attempt asks a scheduler.

        Each further attempt continues from the checkpoint and asks for twice as many minutes. Four
        attempts together have more time than the estimate.
        """
        needed = TIME_MARGIN * cost.seconds / 60 + 10
        first = max(min(needed, SHORT_JOB), needed / 8)
        return min(math.ceil(first), 60 * self.plan.config.assumptions.longest_job_hours)

    def job_memory(self, spec: RunSpec | FisherSpec) -> int:
        """Return the megabytes of main memory for which a job that computes asks first."""
        tokens = spec.tokens
        batch = spec.recipe.batch_size if isinstance(spec, RunSpec) else FISHER_BATCH
        model = self.dimensions[tokens.tokenizer]
        layer = numbers_per_token(model) + 2 * model.num_attention_heads * tokens.max_length
        tokens_at_once = max(CPU_TRAINING_TOKENS, batch * tokens.max_length)
        floats = (COPIES_OF_MODEL + COPIES_OF_TRAINED) * self.parameters[tokens.tokenizer]
        floats += tokens_at_once * model.num_hidden_layers * layer
        return int(PROCESS_MB + FLOAT_BYTES * floats / 1e6 + self.examples_mb(tokens))

    def examples_mb(self, tokens: TokensSpec) -> float:
        """Return the megabytes of main memory that a task's token ids take."""
        # An example is two numpy arrays of 64-bit integers, with about 100 bytes of overhead each.
        examples = self.plan.task_size(tokens).all_rows * self.plan.examples_per_row(tokens)
        return examples * 2 * (100 + 8 * self._mean_length(tokens)) / 1e6

    def _mean_length(self, tokens: TokensSpec) -> float:
        """Return the number of tokens of an average example."""
        return min(self.plan.task_size(tokens).tokens, tokens.max_length)

    def _run_cost(self, run: PlannedRun, beside: int) -> Cost:
        """Return the cost of a run, where ``beside`` runs share its steps, itself included."""
        tokens, recipe = run.spec.tokens, run.spec.recipe
        judged = self.plan.task_size(tokens, recipe.fold).evaluation_rows
        if isinstance(recipe, Fit):
            return self._fit_cost(run, judged)
        examples = run.train_rows * self.plan.examples_per_row(tokens)
        steps = math.ceil(examples / recipe.batch_size) * recipe.epochs
        kind = STEP_KINDS[run.spec.work(self.plan.ranked)]
        size = Cost(bytes=self._trained_bytes(run) + judged * BYTES_OF_A_PREDICTION)
        trained = self._steps_cost(kind, steps, examples * recipe.epochs, tokens, beside)
        if self.plan.config.assumptions.on_gpu:
            layers = self.dimensions[tokens.tokenizer].num_hidden_layers
            trained += Cost(seconds=min(steps, SHAPES) * CAPTURE * layers / beside)
        return trained + self._evaluation_cost(judged * recipe.epochs, tokens) + size

    def _fit_cost(self, run: PlannedRun, judged: int) -> Cost:
        """Return the cost of a regression, with ``judged`` evaluated rows."""
        tokens, cost = run.spec.tokens, Cost(seconds=FIT_SECONDS)
        if not run.spec.reads_texts:
            return cost + self._evaluation_cost(run.train_rows + judged, tokens)
        letters = LETTERS_PER_TOKEN * self.plan.task_size(tokens).tokens
        fitted = min(LETTER_FITTED * letters * run.train_rows, LONGEST_FIT)
        return cost + Cost(seconds=fitted + LETTER_READ * letters * judged)

    def _evaluation_cost(self, rows: float, tokens: TokensSpec) -> Cost:
        examples = rows * self.plan.examples_per_row(tokens)
        is_gpu = self.plan.config.assumptions.on_gpu
        at_once = GPU_EVALUATION_TOKENS if is_gpu else EVALUATION_TOKENS
        passes = examples * self._mean_length(tokens) / at_once
        return self._steps_cost("evaluation", passes, examples, tokens)

    def _steps_cost(
        self, kind: Trains, steps: float, examples: float, tokens: TokensSpec, beside: int = 1
    ) -> Cost:
        """Return the cost of a run's ``steps``, which ``beside`` runs share.

        ``examples``: the number of the run's examples in all steps.
        """
        pace, flops = find_pace(self.paces, kind), examples * self.forward_flops[tokens.key]
        start = pace.per_layer / 1e3 * self.dimensions[tokens.tokenizer].num_hidden_layers
        # Runs that train the classifier alone share the whole pass of the frozen encoder.
        computed = flops / 1e12 / (beside if kind == "nothing" else 1)
        seconds = start * steps / beside + pace.per_teraflop * computed
        return Cost(examples * self._mean_length(tokens), FORWARD_PASSES[kind] * flops, seconds)

    def _count_beside(self, runs: Iterable[PlannedRun], rates: int = 1) -> dict[str, int]:
        """Return the number of these runs that share each run's steps, by key.

        ``rates``: the number of learning rates at which each run trains at the same time.
        """
        on_gpu, specs, steps = self.plan.config.assumptions.on_gpu, {}, {}
        for run in runs:
            is_packed = isinstance(self.dimensions[run.spec.model.id], Dimensions)
            specs[run.key] = run.spec
            # On a CPU, transformers' code computes one run at a time. Jobs do not depend on this,
            # because models that are not downloaded may be of any family.
            steps[run.key] = self.plan.step_key(run) if on_gpu or is_packed else run.spec.id
        numbers = Counter(steps.values())
        return {
            key: 1 if steps[key] == spec.id else rates * numbers[steps[key]]
            for key, spec in specs.items()
        }

    def _trained_bytes(self, run: PlannedRun) -> float:
        share = 1 if run.spec.work(self.plan.ranked).trains_matrices else SMALL_SHARE
        return FLOAT_BYTES * share * self.parameters[run.spec.model.id]


def cost_table(estimates: Estimates, with_information: Collection[str]) -> "pd.DataFrame":
    """Return one row per experiment, and a last row in which shared runs count once.

    Args:
        with_information: the names of the experiments that show Fisher information.

    Returns:
        The columns `COLUMNS`:
        ``jobs``: the jobs that the Slurm profile submits: one per sweep, per job of searches, per
        task's Fisher information and per model that predicts test rows, and one for all token ids.
        ``tokens``: the number of tokens on which runs train or are evaluated.
        ``hours``: the time on the assumed device.
        ``gigabytes``: the size of the run records.
    """
    import pandas as pd

    plan = estimates.plan
    # By experiment: runs, sweeps, Fisher information, and runs that predict test rows, per model.
    parts: dict[str, list[set]] = {}
    for name, experiment in plan.config.experiments.items():
        tasks = [task for task in experiment.tasks if plan.config.is_submitted(task)]
        reads = name in with_information or experiment.fractions
        fishers = plan.experiment_fishers[name].values() if reads else ()
        tests = {
            (
                name,
                *(run for task in tasks for run in plan.runs_by_method(name, model, task).values()),
            )
            for model in (experiment.models if tasks else ())
        }
        runs = {planned.key for planned in plan.experiments[name]}
        parts[name] = [runs, {*plan.find_sweeps(name)}, {fisher.key for fisher in fishers}, tests]
    parts[TOTAL] = [set().union(*sets) for sets in zip(*parts.values(), strict=True)]
    rows = []
    for name, (runs, sweeps, keys, tests) in parts.items():
        searches = plan.find_search_jobs(*sweeps)
        costs = [estimates.run_costs[run] for run in sorted(runs)]
        costs += [estimates.search_cost(job) for job in searches]
        costs += [estimates.fisher_cost(key) for key in sorted(keys)]
        costs += [estimates.prediction_cost(predicting) for _, *predicting in sorted(tests)]
        cost = sum(costs + [estimates.start_cost] * len(sweeps), Cost())
        numbers = len(runs), len(sweeps), len(sweeps) + len(searches) + len(keys) + len(tests) + 1
        amounts = cost.tokens, cost.flops, cost.seconds / 3600, cost.bytes / 1e9
        rows.append((name, *numbers, *amounts))
    return pd.DataFrame(rows, columns=list(COLUMNS))
