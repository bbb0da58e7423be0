"""Estimates of time, memory and disk before anything runs. No result depends on them.

A training step takes a time per layer, which runs side by side share, a time per operation of its
forward pass, and a time per number in trained matrices. These times depend on what trains. They are
fitted to measured steps: those of `subtune init`, in the configuration, or those of a device in
`steps.yaml`. The precision is the measured one. For a model of another size the estimate may be
wrong by a factor of two.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from itertools import chain, combinations
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from subtune.config.schema import Pace, Trains
from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import read_package_yaml
from subtune.core.jobs import CHECKPOINTS_KEPT
from subtune.core.layout import Layout
from subtune.data.batches import CPU_TRAINING_TOKENS, EVALUATION_TOKENS, GPU_EVALUATION_TOKENS
from subtune.methods.selection import Work
from subtune.models.dimensions import (
    AnyDimensions,
    bytes_per_run,
    known_config,
    known_dimensions,
    numbers_per_token,
)
from subtune.models.families import Dimensions
from subtune.models.files import choose_head
from subtune.plan.jobs import RUNS_OF_A_SEARCH
from subtune.plan.plan import Plan
from subtune.runs.spec import FisherSpec, Fit, RunSpec, TokensSpec

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
# A job asks for this many times the estimated time.
TIME_MARGIN = 2
# Minutes of a job that schedulers start soon, because it fits into gaps.
SHORT_JOB = 240
# Bytes on disk per evaluated row, for its prediction, history and scores.
BYTES_OF_A_PREDICTION = 24
# The largest share of a model's parameters in vectors and low-rank updates.
SMALL_SHARE = 0.03
# Bytes of a GPU of 80 GB that runs side by side may use.
GPU_BYTES = 70e9
# More runs side by side than this save no time.
MOST_SIDE_BY_SIDE = 64
# A search trains three learning rates side by side and, on average, one more: two in the mean.
RATES_AT_ONCE = 2
# The kind of step of each work, such as ``low_rank`` of `Work.LOW_RANK`.
KINDS: dict[Work, Trains] = {work: cast(Trains, work.name.lower()) for work in Work}
# The kinds of step in which matrices train.
MATRICES = {kind for work, kind in KINDS.items() if work.trains_matrices}
# Each kind's cost in forward passes.
FORWARD_PASSES = {"evaluation": 1.0} | {kind: work.value for work, kind in KINDS.items()}
# Rows of BERT's table of embeddings.
VOCABULARY = 30_000
# Columns of the table of costs, and the name of its last row.
COLUMNS = ("experiment", "runs", "sweeps", "jobs", "tokens", "flops", "hours", "gigabytes")
TOTAL = "all, each once"


@dataclass(frozen=True)
class Cost:
    """The cost of a stage.

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


class Step(NamedTuple):
    """A measured step of runs side by side.

    Attributes:
        layers: the number of the model's layers.
        teraflops: the operations of all runs' forward passes, in units of 10¹².
        seconds: the time of the step.
        billions: the numbers in all runs' trained matrices, in units of 10⁹.
    """

    layers: int
    teraflops: float
    seconds: float
    billions: float = 0


def fitted(steps: Iterable[Step]) -> Pace:
    """Return the pace with the smallest squared relative errors. No part of it is negative.

    Without two different numbers of operations, the time per layer is 0. Without two different
    numbers in trained matrices, the time per number is 0.
    """
    layers, teraflops, seconds, billions = np.array([*steps]).T
    parts = np.stack([layers, teraflops, billions], axis=1) / seconds[:, None]
    # A part is known if the steps differ in it; the time per operation always is.
    known = [part for part, of in ((0, teraflops), (2, billions)) if len({*of}) > 1] + [1]
    candidates = []
    # The best pace without negative parts is the best one of its positive parts alone.
    for some in chain.from_iterable(combinations(known, n) for n in (1, 2, 3)):
        pace = np.zeros(3)
        pace[[*some]] = np.linalg.lstsq(parts[:, some], np.ones(len(parts)))[0]
        if (pace >= 0).all():
            candidates.append(pace)
    found = min(candidates, key=lambda pace: ((parts @ pace - 1) ** 2).sum())
    rounded = [float(f"{value:.3g}") for value in found * (1e3, 1, 1)]
    return Pace(**dict(zip(Pace.model_fields, rounded, strict=True)))


@cache
def measured_steps() -> dict[str, dict[Trains, list[Step]]]:
    """Return the steps of `steps.yaml`, by device and by what trains."""
    table = read_package_yaml("subtune.plan", "steps.yaml")
    devices: dict[str, dict[Trains, list[Step]]] = {}
    for device, rows in table["devices"].items():
        devices[device] = {}
        for trains, layers, width, runs, texts, tokens, milliseconds in rows:
            flops = runs * tokens * layers * (24 * width**2 + 4 * width * tokens / texts)
            trained = runs * width * (12 * layers * width + VOCABULARY) if trains in MATRICES else 0
            step = Step(layers, flops / 1e12, milliseconds / 1e3, trained / 1e9)
            devices[device].setdefault(trains, []).append(step)
    return devices


def pace_of_device(device: str) -> dict[Trains, Pace]:
    """Return the pace of a device in `steps.yaml`, by what trains.

    Raises:
        SubtuneError: nothing was measured on this device.
    """
    devices = measured_steps()
    ratios = read_package_yaml("subtune.plan", "steps.yaml")["ratios"]
    if device not in {*devices, *ratios}:
        known = one_of(device, [*devices, *ratios])
        raise SubtuneError(f"assumptions.device: {known}, or the `pace` of another device")
    like, *of = ratios.get(device, (device, 1, 1))
    paces = {trains: fitted(steps) for trains, steps in devices[like].items()}
    return {trains: _scaled(pace, 1, *of) for trains, pace in paces.items()}


def pace_of(paces: Mapping[Trains, Pace], kind: Trains) -> Pace:
    """Return the pace of a kind of step. If it was not measured, scale the most similar kind's."""
    nearest = min(paces, key=lambda of: abs(FORWARD_PASSES[of] - FORWARD_PASSES[kind]))
    nearest = kind if kind in paces else nearest
    ratio = FORWARD_PASSES[kind] / FORWARD_PASSES[nearest]
    return _scaled(paces[nearest], ratio, ratio, ratio)


def _scaled(pace: Pace, *ratios: float) -> Pace:
    """Return a pace with each part multiplied by its ratio."""
    return Pace(**{name: r * value for r, (name, value) in zip(ratios, pace, strict=True)})


class Estimates:
    """Costs of a plan's stages. Each cost is computed once."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._assumed = plan.config.assumptions
        self.paces = self._assumed.pace or pace_of_device(self._assumed.device)
        self._pace = cache(lambda kind: pace_of(self.paces, kind))
        # The cost of starting a job.
        self.start = Cost(seconds=60 * self._assumed.start_minutes)
        self.run = cache(lambda run: self._run(run, self._beside[run]))
        self._dimensions = cache(self._dimensions_of)
        self._fields = cache(lambda model: known_config(plan.locations[model]))
        self._parameters = cache(lambda model: self._dimensions(model).parameters)

    @property
    def unknown_models(self) -> list[str]:
        """Locations of models that are not downloaded yet and therefore count as BERT-large."""
        locations = set(self.plan.locations.values())
        return sorted(location for location in locations if known_dimensions(location) is None)

    def sweep(self, sweep: str) -> Cost:
        """Return the cost of a sweep's runs and of starting its job."""
        return sum((self.run(run.key) for run in self.plan.sweeps[sweep]), self.start)

    def search_job(self, job: str) -> Cost:
        """Return the cost of a job's searches for learning rates, and of starting the job.

        A planned run that a search also trains counts with its sweep.
        """
        every = self.plan.runs
        planned = {
            search: [run for run, of in every.items() if of.search == search]
            for search in self.plan.search_jobs[job]
        }
        beside = self._side_by_side([run for run, *_ in planned.values()], RATES_AT_ONCE)
        cost = self.start
        for search, (first, *others) in planned.items():
            searched, runs = self.plan.searches[search].run, RUNS_OF_A_SEARCH
            if any(every[run].spec == searched for run in (first, *others)):
                runs -= 1
            cost += Cost(*(runs * amount for amount in astuple(self._run(first, beside[first]))))
        return cost

    def checkpoints(self, sweep: str) -> float:
        """Return the largest size in bytes of the checkpoints of runs side by side."""
        runs = [run.key for run in self.plan.sweeps[sweep]]
        largest = max(self._beside[run] * self._trained_bytes(run) for run in runs)
        return CHECKPOINTS_KEPT * COPIES_OF_TRAINED * largest

    def fisher(self, fisher: str) -> Cost:
        """Return the cost of one task's Fisher information."""
        spec = self.plan.fishers[fisher]
        rows = self.plan.task_size(spec.tokens).train_rows
        examples = rows * self.plan.examples_per_row(spec.tokens)
        examples = min(spec.rows or examples, examples)
        flops = Work.MATRICES.value * examples * self._forward_flops(spec.tokens)
        steps = examples / FISHER_BATCH
        seconds = self._seconds("matrices", steps, examples, spec.tokens)
        return Cost(examples * self._length(spec.tokens), flops, seconds) + self.start

    def test_predictions(self, runs: Iterable[str]) -> Cost:
        """Return the cost of predicting the test rows of the runs' tasks."""
        rows = (
            (self.plan.task_size(self.plan.runs[run].spec.tokens).test_rows, run) for run in runs
        )
        return sum((self._evaluation(*tested) for tested in rows), self.start)

    def minutes(self, cost: Cost) -> int:
        """Return the minutes for which a stage's first attempt asks a scheduler.

        Each further attempt continues from the checkpoint and asks for twice as many minutes. Four
        attempts together have more time than the estimate.
        """
        needed = TIME_MARGIN * cost.seconds / 60 + 10
        first = max(min(needed, SHORT_JOB), needed / 8)
        return min(math.ceil(first), 60 * self._assumed.longest_job_hours)

    def memory(self, spec: RunSpec | FisherSpec) -> int:
        """Return the megabytes of main memory for which a stage that computes asks first."""
        tokens = spec.tokens
        batch = spec.recipe.batch_size if isinstance(spec, RunSpec) else FISHER_BATCH
        model = self._dimensions(tokens.tokenizer)
        layer = numbers_per_token(model) + 2 * model.num_attention_heads * tokens.max_length
        tokens_at_once = max(CPU_TRAINING_TOKENS, batch * tokens.max_length)
        floats = (COPIES_OF_MODEL + COPIES_OF_TRAINED) * self._parameters(tokens.tokenizer)
        floats += tokens_at_once * model.num_hidden_layers * layer
        return int(PROCESS_MB + FLOAT_BYTES * floats / 1e6 + self._examples_mb(tokens))

    def tokens_memory(self, tokens: str) -> int:
        """Return the main memory that making a task's token ids needs, in megabytes."""
        return int(1000 + self._examples_mb(self.plan.tokens[tokens]))

    def _examples_mb(self, tokens: TokensSpec) -> float:
        # An example is two numpy arrays of 64-bit integers, with about 100 bytes of overhead each.
        examples = self.plan.task_size(tokens).all_rows * self.plan.examples_per_row(tokens)
        return examples * 2 * (100 + 8 * self._length(tokens)) / 1e6

    def _length(self, tokens: TokensSpec) -> float:
        """Return the number of tokens of an average example."""
        return min(self.plan.task_size(tokens).tokens, tokens.max_length)

    def _forward_flops(self, tokens: TokensSpec) -> float:
        """Return the operations of a forward pass of an average example."""
        model = self._dimensions(tokens.tokenizer)
        head, pooling = tokens.data.task.of_kind.head, self.plan.models[tokens.tokenizer].pooling
        fields = self._fields(tokens.tokenizer)
        if fields:
            head = choose_head(pooling, head, fields)
        return model.forward_flops(self._length(tokens), head)

    def _run(self, run: str, beside: float) -> Cost:
        """Return the cost of a run, where ``beside`` runs share its steps, itself included."""
        spec = self.plan.runs[run].spec
        tokens, recipe = spec.tokens, spec.recipe
        judging = self.plan.task_size(tokens, recipe.fold).evaluation_rows
        if isinstance(recipe, Fit):
            embedded = self._evaluation(self.plan.runs[run].train_rows + judging, run)
            return embedded + Cost(seconds=FIT_SECONDS)
        examples = self.plan.runs[run].train_rows * self.plan.examples_per_row(tokens)
        epochs, work = recipe.epochs, self.plan.work(self.plan.runs[run])
        steps = math.ceil(examples / recipe.batch_size) * epochs
        # Runs that train the classifier alone share the whole pass of the frozen encoder.
        computed = examples * epochs / (beside if work is Work.NOTHING else 1)
        seconds = self._seconds(KINDS[work], steps / beside, computed, tokens)
        own = self._pace(KINDS[work]).per_billion_trained * self._in_matrices(run) / 1e9
        trained = Cost(
            examples * self._length(tokens) * epochs,
            work.value * examples * epochs * self._forward_flops(tokens),
            seconds + own * steps,
            self._trained_bytes(run) + judging * BYTES_OF_A_PREDICTION,
        )
        return trained + self._evaluation(judging * epochs, run)

    @cached_property
    def _beside(self) -> dict[str, float]:
        """The number of runs that share each run's steps."""
        sweeps = self.plan.sweeps.values()
        return {
            key: number
            for sweep in sweeps
            for key, number in self._side_by_side(run.key for run in sweep).items()
        }

    def _side_by_side(self, runs: Iterable[str], rates: int = 1) -> dict[str, float]:
        """Return the mean number of runs that share each run's steps.

        ``rates``: the number of learning rates at which each run trains at the same time.
        """
        shared = {run: self._shared(run) for run in runs}
        numbers, found = Counter(shared.values()), dict[str, float]()
        for run, key in shared.items():
            number = 1 if isinstance(key, str) else rates * numbers[key]
            found[run] = number / max(1, math.ceil(number / self._most_side_by_side(run)))
        return found

    def _shared(self, run: str) -> Hashable:
        """Return what is equal in runs that share steps, or a name of a run that shares none."""
        is_packed = isinstance(self._dimensions(self.plan.runs[run].spec.model.id), Dimensions)
        return self.plan.step_key(self.plan.runs[run]) if self._assumed.on_gpu or is_packed else run

    def _most_side_by_side(self, run: str) -> float:
        """Return the largest number of runs like this one that train side by side."""
        if not self._assumed.on_gpu:
            return math.inf
        spec = self.plan.runs[run].spec
        longest = min(2 * self._length(spec.tokens), spec.tokens.max_length)
        of, tokens = self._dimensions(spec.model.id), spec.recipe.batch_size * longest
        most = GPU_BYTES // bytes_per_run(of, tokens, self._in_matrices(run))
        return min(max(1, most), MOST_SIDE_BY_SIDE)

    def _evaluation(self, rows: float, run: str) -> Cost:
        spec = self.plan.runs[run].spec
        examples = rows * self.plan.examples_per_row(spec.tokens)
        tokens = examples * self._length(spec.tokens)
        flops = examples * self._forward_flops(spec.tokens)
        passes = tokens / (GPU_EVALUATION_TOKENS if self._assumed.on_gpu else EVALUATION_TOKENS)
        seconds = self._seconds("evaluation", passes, examples, spec.tokens)
        return Cost(tokens, flops, seconds)

    def _seconds(self, kind: Trains, steps: float, examples: float, tokens: TokensSpec) -> float:
        """Return the seconds of a number of ``steps``, which have ``examples`` in all."""
        pace, layers = self._pace(kind), self._dimensions(tokens.tokenizer).num_hidden_layers
        teraflops = examples * self._forward_flops(tokens) / 1e12
        return pace.per_layer / 1e3 * layers * steps + pace.per_teraflop * teraflops

    def _trained_bytes(self, run: str) -> float:
        small = SMALL_SHARE * self._parameters(self.plan.runs[run].spec.model.id)
        return FLOAT_BYTES * (self._in_matrices(run) or small)

    def _in_matrices(self, run: str) -> int:
        """Return the number of parameters in a run's trained matrices: none, or at most all."""
        parameters = self._parameters(self.plan.runs[run].spec.model.id)
        return parameters if self.plan.work(self.plan.runs[run]).trains_matrices else 0

    def _dimensions_of(self, model: str) -> AnyDimensions:
        location = self.plan.locations[model]
        dimensions = known_dimensions(location) or known_dimensions("bert-large-cased")
        assert dimensions is not None
        return dimensions


def in_words(seconds: float) -> str:
    """Return a time in hours, minutes or seconds."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return "a minute" if seconds >= 55 else f"{max(seconds, 1):.0f} seconds"


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
        costs = [estimates.run(run) for run in sorted(runs)]
        costs += [estimates.search_job(job) for job in searches]
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
    """Return each finished sweep's key, its last attempt's seconds, and its estimated seconds."""
    import pandas as pd

    benchmarks = {sweep: Path(layout.benchmark("train", sweep)) for sweep in sweeps}
    return [
        (sweep, float(pd.read_csv(path, sep="\t")["s"].iloc[0]), estimates.sweep(sweep).seconds)
        for sweep, path in benchmarks.items()
        if path.is_file()
    ]
