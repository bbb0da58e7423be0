"""Estimates of the time, memory and disk space of jobs. Estimates do not affect results.

The duration of a training step is estimated as::

    seconds = per_layer / 1000 * layers + per_teraflop * teraflops

``teraflops`` is the number of operations of the forward pass, divided by 10¹². The *pace* of a kind
of step consists of ``per_layer`` and ``per_teraflop``. Runs that train side by side share the time
per layer.
``subtune init`` measures paces, and ``paces.yaml`` lists the paces of known devices. The estimate
for a model may be wrong by a factor of two if only models of other sizes were measured.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, cast

from subtune.config.schema import Pace, Trains
from subtune.core.errors import SubtuneError, format_allowed
from subtune.core.files import CHECKPOINTS_KEPT, read_package_yaml
from subtune.methods.baselines import CONSTANT
from subtune.methods.rules import FISHER, PER_TASK
from subtune.methods.selection import TrainingCost
from subtune.models.dimensions import AnyDimensions, activations_per_token, known_dimensions
from subtune.models.families import Dimensions
from subtune.models.model_config import choose_head
from subtune.plan.plan import RUNS_OF_A_SEARCH, Plan
from subtune.runs.spec import FisherSpec, PlannedRun, RunSpec, TokensSpec
from subtune.tasks.examples import CPU_TRAINING_TOKENS, EVALUATION_TOKENS, GPU_EVALUATION_TOKENS

if TYPE_CHECKING:
    import pandas as pd

FLOAT_BYTES = 4
# Megabytes of main memory that Python, torch and CUDA need.
PROCESS_MB = 3000
# Memory contains three copies of the weights: from the file, for training, and for evaluation.
COPIES_OF_MODEL = 3
# Training needs memory for four numbers per trained parameter: the gradient, the two moments of
# AdamW, and the value at the best epoch. In a checkpoint, the current value replaces the gradient.
COPIES_OF_TRAINED = 4
FISHER_BATCH = 16
# Seconds to import scikit-learn and to fit a regression to the embeddings of a few hundred texts.
FIT_SECONDS = 2
# TF-IDF needs `LETTER_READ` seconds per character that is read, and `LETTER_FITTED` seconds per
# character to which a regression is fitted. Fitting takes at most `LONGEST_FIT` seconds
# (`subtune.training.tf_idf.MOST_CHARACTERS`).
LETTER_READ, LETTER_FITTED, LONGEST_FIT, LETTERS_PER_TOKEN = 4e-6, 6e-6, 30, 4
# The batches of a group of runs have about `SHAPES` shapes. On a GPU, a CUDA graph of the training
# step is captured for each shape. Capturing takes `CAPTURE` seconds per layer, including one step
# without a graph (measured with MiniLM and BERT-base on an H200).
SHAPES, CAPTURE = 8, 0.03
# A job requests the estimated time multiplied by this factor.
TIME_MARGIN = 2
# Jobs of at most this many minutes fit into gaps of a cluster's schedule and therefore start early.
SHORT_JOB = 240
# The numbers of the attempts that the profile `slurm` makes (`restart-times: 3`).
ATTEMPTS = (1, 2, 3, 4)
# Bytes on disk per evaluated row of a run, for predictions, the learning curve and scores.
BYTES_OF_A_PREDICTION = 24
# Vectors and low-rank updates are at most this fraction of a model's parameters.
SMALL_SHARE = 0.03
# The mean number of runs that a search trains side by side. A search begins with three learning
# rates, and on average continues with one more.
RATES_AT_ONCE = 2
# Maps each `TrainingCost` to its key in the setting `pace`, such as `TrainingCost.LOW_RANK` to
# ``low_rank``.
STEP_KINDS: dict[TrainingCost, Trains] = {
    work: cast(Trains, work.name.lower()) for work in TrainingCost
}
# Maps each kind of step to its operations, as a multiple of the operations of a forward pass.
FORWARD_PASSES = {"evaluation": 1.0} | {kind: work.value for work, kind in STEP_KINDS.items()}
# The columns of the cost table, and the name of its last row.
COST_COLUMNS = ("experiment", "runs", "sweeps", "jobs", "tokens", "flops", "hours", "gigabytes")
TOTAL = "all, each once"


@dataclass(frozen=True)
class Cost:
    """The cost of a job or a run on the assumed device. ``bytes`` are on disk."""

    tokens: float = 0
    flops: float = 0
    seconds: float = 0
    bytes: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))


def find_pace(paces: Mapping[Trains, Pace], kind: Trains) -> Pace:
    """Return the measured pace of a kind of step, or a scaled pace of the most similar kind."""
    if kind in paces:
        return paces[kind]
    nearest = min(paces, key=lambda other: abs(FORWARD_PASSES[other] - FORWARD_PASSES[kind]))
    ratio = FORWARD_PASSES[kind] / FORWARD_PASSES[nearest]
    pace = paces[nearest]
    return Pace(per_layer=ratio * pace.per_layer, per_teraflop=ratio * pace.per_teraflop)


@dataclass(frozen=True)
class Estimates:
    """Estimates for the jobs and runs of a plan.

    ``mean_tokens`` maps a model's id to the mean number of tokens of an example. For other models,
    the number in the size of the task is used.
    """

    plan: Plan
    mean_tokens: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def paces(self) -> dict[Trains, Pace]:
        """The paces of the assumed device. Unknown paces raise a `SubtuneError`."""
        assumed = self.plan.config.assumptions
        if assumed.pace:
            return assumed.pace
        devices = read_package_yaml("subtune.plan", "paces.yaml")
        if assumed.device not in devices:
            known = format_allowed(assumed.device, devices)
            raise SubtuneError(
                f"assumptions.device: {known}; for other devices, set `pace` as well"
            )
        return {kind: Pace(**pace) for kind, pace in devices[assumed.device].items()}

    @cached_property
    def paces_by_model(self) -> dict[str, dict[Trains, Pace]]:
        """The paces of models that have their own paces in the configuration, by the model's id."""
        own = self.plan.config.assumptions.pace_by_model
        return {id: own[name] for name, id in self.plan.model_ids.items() if own.get(name)}

    @cached_property
    def dimensions(self) -> dict[str, AnyDimensions]:
        """The dimensions of each model, by id. Unknown models are assumed to be like BERT-large."""
        large = known_dimensions("bert-large-cased")
        assert large
        locations = self.plan.locations
        return {id: known_dimensions(location) or large for id, location in locations.items()}

    @cached_property
    def parameter_counts(self) -> dict[str, int]:
        """The number of parameters of each model, by id."""
        return {id: dimensions.parameters for id, dimensions in self.dimensions.items()}

    @cached_property
    def forward_flops(self) -> dict[str, float]:
        """Maps keys of token ids to the operations of a forward pass on a text of mean length."""
        flops = {}
        for key, tokens in self.plan.tokens.items():
            dimensions = self.dimensions[tokens.tokenizer]
            pooling = self.plan.models[tokens.tokenizer].pooling
            head = choose_head(pooling, tokens.data.task.of_kind.head, dimensions.model_type)
            flops[key] = dimensions.forward_flops(self._mean_length(tokens), head)
        return flops

    @cached_property
    def runs_sharing_steps(self) -> dict[str, int]:
        """Maps the key of each run to the number of runs that share its steps, including itself."""
        sweeps = self.plan.sweeps.values()
        return {key: n for sweep in sweeps for key, n in self._count_sharing_runs(sweep).items()}

    @cached_property
    def run_costs(self) -> dict[str, Cost]:
        """The cost of each run, by key. Runs that share steps share the cost of these steps."""
        return {
            key: self._run_cost(run, self.runs_sharing_steps[key])
            for key, run in self.plan.runs.items()
        }

    @property
    def start_cost(self) -> Cost:
        return Cost(seconds=60 * self.plan.config.assumptions.start_minutes)

    def sweep_cost(self, sweep: str) -> Cost:
        """Estimate the cost of a sweep: the costs of its runs and of starting its job."""
        return sum((self.run_costs[run.key] for run in self.plan.sweeps[sweep]), self.start_cost)

    def search_cost(self, job: str) -> Cost:
        """Estimate the cost of a search job, without runs that are also planned in a sweep."""
        searched = {
            search: [
                run for run in self.plan.runs.values() if run.search and run.search.id == search
            ]
            for search in self.plan.search_jobs[job]
        }
        first_runs = [runs[0] for runs in searched.values()]
        sharing = self._count_sharing_runs(first_runs, RATES_AT_ONCE)
        cost = self.start_cost
        for search, runs in searched.items():
            is_planned = any(run.spec == self.plan.searches[search].run for run in runs)
            number = RUNS_OF_A_SEARCH - is_planned
            cost = sum([self._run_cost(runs[0], sharing[runs[0].key])] * number, cost)
        return cost

    def checkpoint_bytes(self, sweep: str) -> float:
        """Return the maximum total size, in bytes, of a sweep's checkpoints at one time."""
        runs = self.plan.sweeps[sweep]
        largest = max(self.runs_sharing_steps[run.key] * self._trained_bytes(run) for run in runs)
        return CHECKPOINTS_KEPT * COPIES_OF_TRAINED * largest

    def fisher_cost(self, spec: FisherSpec) -> Cost:
        """Estimate the cost of computing Fisher information, or derivatives, on a task."""
        rows = self.plan.task_size(spec.tokens).train_rows
        examples = min(spec.rows or rows, rows) * self.plan.examples_per_row(spec.tokens)
        if spec.derivative == "synflow_gradient":
            examples = 1
        elif spec.derivative == "hessian_gradient":
            # It is computed from three gradients.
            examples *= 3
        steps = examples / FISHER_BATCH
        return self._steps_cost("matrices", steps, examples, spec.tokens) + self.start_cost

    def prediction_cost(self, runs: Iterable[str]) -> Cost:
        """Estimate the cost of a job in which runs predict the test sets of their tasks."""
        cost = self.start_cost
        for run in runs:
            tokens = self.plan.runs[run].spec.tokens
            cost += self._evaluation_cost(self.plan.task_size(tokens).test_rows, tokens)
        return cost

    def job_minutes(self, cost: Cost, attempt: int = 1) -> int:
        """Return the minutes that an attempt of a job requests. Each attempt doubles them."""
        needed = TIME_MARGIN * cost.seconds / 60 + 10
        first = max(min(needed, SHORT_JOB), needed / 8)
        most = 60 * self.plan.config.assumptions.longest_job_hours
        return min(math.ceil(first) * 2 ** (attempt - 1), most)

    def job_memory(self, spec: RunSpec | FisherSpec) -> int:
        """Return the main memory in megabytes that the first attempt of a job requests."""
        tokens = spec.tokens
        batch = spec.recipe.batch_size if isinstance(spec, RunSpec) else FISHER_BATCH
        model = self.dimensions[tokens.tokenizer]
        layer = activations_per_token(model) + 2 * model.num_attention_heads * tokens.max_length
        tokens_at_once = max(CPU_TRAINING_TOKENS, batch * tokens.max_length)
        floats = (COPIES_OF_MODEL + COPIES_OF_TRAINED) * self.parameter_counts[tokens.tokenizer]
        floats += tokens_at_once * model.num_hidden_layers * layer
        return int(PROCESS_MB + FLOAT_BYTES * floats / 1e6 + self.examples_mb(tokens))

    def examples_mb(self, tokens: TokensSpec) -> float:
        """Return the megabytes of main memory that the token ids of a task need."""
        # An example has two NumPy arrays of 64-bit integers (one if the model has no token
        # types, such as RoBERTa), each with about 100 bytes of overhead.
        examples = self.plan.task_size(tokens).total_rows * self.plan.examples_per_row(tokens)
        return examples * 2 * (100 + 8 * self._mean_length(tokens)) / 1e6

    def _mean_length(self, tokens: TokensSpec) -> float:
        """Return the mean number of tokens per example, after truncation."""
        mean = self.mean_tokens.get(tokens.tokenizer, self.plan.task_size(tokens).tokens)
        return min(mean, tokens.max_length)

    def _run_cost(self, run: PlannedRun, sharing: int) -> Cost:
        """Estimate the cost of a run. ``sharing`` runs, including this one, share its steps."""
        tokens, recipe = run.spec.tokens, run.spec.recipe
        evaluated = self.plan.task_size(tokens, recipe.fold).evaluation_rows
        if run.spec.is_baseline:
            return self._fit_cost(run, evaluated)
        examples = run.train_rows * self.plan.examples_per_row(tokens)
        steps = math.ceil(examples / recipe.batch_size) * recipe.epochs
        kind = STEP_KINDS[run.spec.work(self.plan.masked_tensors)]
        size = Cost(bytes=self._trained_bytes(run) + evaluated * BYTES_OF_A_PREDICTION)
        trained = self._steps_cost(kind, steps, examples * recipe.epochs, tokens, sharing)
        if self.plan.config.assumptions.on_gpu:
            layers = self.dimensions[tokens.tokenizer].num_hidden_layers
            trained += Cost(seconds=min(steps, SHAPES) * CAPTURE * layers / sharing)
        return trained + self._evaluation_cost(evaluated * recipe.epochs, tokens) + size

    def _fit_cost(self, run: PlannedRun, evaluated: int) -> Cost:
        """Estimate the cost of fitting a regression and evaluating it on ``evaluated`` rows."""
        tokens, cost = run.spec.tokens, Cost(seconds=FIT_SECONDS)
        if not run.spec.reads_texts:
            return cost + self._evaluation_cost(run.train_rows + evaluated, tokens)
        if run.method == CONSTANT:
            return cost
        letters = LETTERS_PER_TOKEN * self.plan.task_size(tokens).tokens
        fitted = min(LETTER_FITTED * letters * run.train_rows, LONGEST_FIT)
        return cost + Cost(seconds=fitted + LETTER_READ * letters * evaluated)

    def _evaluation_cost(self, rows: float, tokens: TokensSpec) -> Cost:
        """Estimate the cost of computing the logits of some rows once."""
        examples = rows * self.plan.examples_per_row(tokens)
        is_gpu = self.plan.config.assumptions.on_gpu
        at_once = GPU_EVALUATION_TOKENS if is_gpu else EVALUATION_TOKENS
        passes = examples * self._mean_length(tokens) / at_once
        return self._steps_cost("evaluation", passes, examples, tokens)

    def _steps_cost(
        self, kind: Trains, steps: float, examples: float, tokens: TokensSpec, sharing: int = 1
    ) -> Cost:
        """Estimate the cost of steps, with ``examples`` in total, that ``sharing`` runs share."""
        paces = self.paces_by_model.get(tokens.tokenizer) or self.paces
        pace, flops = find_pace(paces, kind), examples * self.forward_flops[tokens.key]
        start = pace.per_layer / 1e3 * self.dimensions[tokens.tokenizer].num_hidden_layers
        # Runs that train only the classifier also share the pass through the frozen encoder.
        computed = flops / 1e12 / (sharing if kind == "nothing" else 1)
        seconds = start * steps / sharing + pace.per_teraflop * computed
        return Cost(examples * self._mean_length(tokens), FORWARD_PASSES[kind] * flops, seconds)

    def _count_sharing_runs(self, runs: Iterable[PlannedRun], rates: int = 1) -> dict[str, int]:
        """Map each run's key to the number of runs, with ``rates`` each, that share its steps."""
        sharing, on_gpu = dict[str, int](), self.plan.config.assumptions.on_gpu
        for group in self.plan.group_runs({run.key: run for run in runs}.values()):
            spec = group[0].spec
            # On a CPU, runs of models that use transformers' code are trained one at a time.
            # `Plan.sweeps` cannot consider this, because the family of a model is unknown until the
            # model is downloaded.
            is_packed = isinstance(self.dimensions[spec.model.id], Dimensions)
            shares_none = spec.sharing_key(self.plan.masked_tensors, on_gpu) == spec.id
            is_alone = shares_none or not (on_gpu or is_packed)
            number = 1 if is_alone else rates * len(group)
            sharing |= {run.key: number for run in group}
        return sharing

    def _trained_bytes(self, run: PlannedRun) -> float:
        share = 1 if run.spec.work(self.plan.masked_tensors).trains_matrices else SMALL_SHARE
        return FLOAT_BYTES * share * self.parameter_counts[run.spec.model.id]


def cost_table(estimates: Estimates, with_information: Collection[str]) -> "pd.DataFrame":
    """Build the cost table: one row per experiment, and a total that counts shared runs once.

    ``with_information`` names the experiments with figures that show Fisher information. ``jobs``
    counts the jobs that the Slurm profile submits: those for sweeps, searches, Fisher information,
    gradients and test-set predictions, and a single job for all token ids. ``tokens`` counts the
    tokens in training and evaluation, ``hours`` is the duration on the assumed device, and
    ``gigabytes`` is the size of the run records.
    """
    import pandas as pd

    plan = estimates.plan
    # Maps each experiment to four sets: the keys of its runs and of its sweeps, pairs of a rule's
    # argument and the key of its spec, and tuples (one per model) with the keys of the runs that
    # predict test sets.
    parts: dict[str, list[set]] = {}
    for name, experiment in plan.config.experiments.items():
        tasks = [task for task in experiment.tasks if plan.config.is_submitted(task)]
        reads = name in with_information
        fishers = plan.experiment_fisher_specs[name].values() if reads else ()
        inputs = {(FISHER, fisher.key) for fisher in fishers}
        masks = {mask.id: mask for run in plan.experiments[name] for mask in run.masks}
        for mask in masks.values():
            for need in PER_TASK:
                inputs |= {(need, sample.key) for sample in mask.list_samples(need)}
        tests = set[tuple[str, ...]]()
        for model in experiment.models if tasks else ():
            predicting = (plan.run_keys_by_method(name, model, task).values() for task in tasks)
            tests.add((name, *chain.from_iterable(predicting)))
        runs = {planned.key for planned in plan.experiments[name]}
        parts[name] = [runs, {*plan.find_sweeps(name)}, inputs, tests]
    parts[TOTAL] = [set().union(*sets) for sets in zip(*parts.values(), strict=True)]
    rows, specs = [], plan.fisher_specs | plan.gradient_specs
    for name, (runs, sweeps, inputs, tests) in parts.items():
        searches = plan.find_search_jobs(*sweeps)
        costs = [estimates.run_costs[run] for run in sorted(runs)]
        costs += [estimates.search_cost(job) for job in searches]
        costs += [estimates.fisher_cost(specs[key]) for _, key in sorted(inputs)]
        costs += [estimates.prediction_cost(predicting) for _, *predicting in sorted(tests)]
        cost = sum(costs + [estimates.start_cost] * len(sweeps), Cost())
        numbers = len(runs), len(sweeps), len(sweeps) + len(searches) + len(inputs) + len(tests) + 1
        amounts = cost.tokens, cost.flops, cost.seconds / 3600, cost.bytes / 1e9
        rows.append((name, *numbers, *amounts))
    return pd.DataFrame(rows, columns=list(COST_COLUMNS))
