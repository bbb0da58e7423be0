"""How fast this machine trains: a few steps of the model itself, or products of matrices."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import torch
from scipy.optimize import nnls

from subtune.config.schema import Assumptions
from subtune.core import hardware
from subtune.data.batches import by_length
from subtune.init.choosing import Settings
from subtune.init.lengths import encoded, has_tokenizer, some_of
from subtune.models.dimensions import dimensions_in
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder, shapes_of
from subtune.models.forward import logits
from subtune.models.load import load_model
from subtune.models.packed import pack
from subtune.planning.jobs import trains_alone, work
from subtune.planning.plan import Plan
from subtune.selections.kind import Work
from subtune.selections.methods import METHODS
from subtune.selections.specs import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.groups import runs_at_once
from subtune.training.matrices import Matrices
from subtune.training.recipe import Member
from subtune.training.run import Run
from subtune.training.stacked import StackedParameters

# What a job takes to start on two laptop cores.
START_MINUTES = 0.15
# What of a large product's rate training reaches on them, and what else a step takes: both as
# docs/performance.md has them.
SHARE_OF_PRODUCT, MILLISECONDS_PER_LAYER = 0.5, 3.0
# Of square matrices whose product is timed.
WIDTH = 1024
# Larger models take too long to load for a few steps.
LARGEST_MEASURED = 200_000_000
# How long all steps that are measured may take, about, on a core of a laptop.
SECONDS, LAPTOP_FLOPS = 2.0, 6e10
# Of so many rows those are taken whose lengths are typical.
ROWS = 500
# Each step is taken once for nothing, and then so often; the fastest counts.
TIMED = 3


class Step(NamedTuple):
    """A training step of one run: its seconds, and by how much an estimate would explain them.

    ``flops``: floating-point operations. ``layers``: those of the model, divided by how many runs
    share the step.
    """

    seconds: float
    flops: float
    layers: float


def assumptions_here(
    plan: Plan,
    task: TaskSpec,
    columns: Mapping[str, list],
    directory: Path | None,
    settings: Settings,
) -> Assumptions:
    """What estimates may assume of this machine, measured in a few seconds.

    Args:
        plan: of the runs that are to be estimated.
        task: whose rows they train on.
        columns: of the training rows, as the task's kind has them.
        directory: of the model, if its files are here.
        settings: how the runs train.
    """
    device = hardware.prepare(threads=1)
    beside = _planned_side_by_side(plan)
    with other_cores_busy(jobs_at_once() - 1):
        fp32, bf16 = (_flops_of_product(dtype, device) for dtype in (torch.float32, torch.bfloat16))
        flops, milliseconds = SHARE_OF_PRODUCT * fp32, MILLISECONDS_PER_LAYER
        if has_tokenizer(directory) and dimensions_in(directory).parameters <= LARGEST_MEASURED:
            (size,) = plan.sizes.values()
            tokens = min(size.tokens, settings.max_length)
            try:
                beside, steps = _steps(task, columns, directory, settings, tokens, beside, device)
                flops, milliseconds = fitted(steps, fp32)
            except (RuntimeError, MemoryError) as error:
                # Others may hold the memory now, and not later.
                if not hardware.is_out_of_memory(error):
                    raise
    name = hardware.device_name(device)
    return Assumptions(
        device=f"one core of {name}" if device.type == "cpu" else name,
        teraflops={"fp32": _rounded(flops / 1e12), "bf16": _rounded(flops * bf16 / fp32 / 1e12)},
        milliseconds_per_layer=round(milliseconds, 2),
        runs_side_by_side=beside,
        start_minutes=START_MINUTES,
    )


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_at_once() -> int:
    """How many jobs train at a time: one on a GPU, else one on each core."""
    return 1 if torch.cuda.is_available() else cores()


@contextmanager
def other_cores_busy(threads: int) -> Iterator[None]:
    """Let other cores compute meanwhile, as they do where jobs train side by side."""
    ended = threading.Event()

    def compute() -> None:
        torch.set_num_threads(1)
        matrix = torch.ones(WIDTH, WIDTH)
        while not ended.is_set():
            torch.mm(matrix, matrix)

    busy = [threading.Thread(target=compute, daemon=True) for _ in range(threads)]
    for thread in busy:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in busy:
            thread.join()


def _rounded(number: float) -> float:
    return float(f"{number:.2g}")


def _flops_of_product(dtype: torch.dtype, device: torch.device) -> float:
    """Floating-point operations per second of a product of two large matrices."""
    matrix = torch.ones(WIDTH, WIDTH, dtype=dtype, device=device)
    return 2 * WIDTH**3 / _seconds(lambda: matrix @ matrix, device)


def _seconds(compute: Callable[[], object], device: torch.device) -> float:
    """How long a computation takes where nothing gets in its way, after it was done once."""
    compute()
    seconds = []
    for _ in range(TIMED):
        started = _clock(device)
        compute()
        seconds.append(_clock(device) - started)
    return min(seconds)


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    # Of this thread alone: other work on the core may soon end.
    return time.thread_time()


def _planned_side_by_side(plan: Plan) -> int:
    """How many runs share a step, on average, where memory and time allow them all."""
    groups = Counter(
        (key, plan.runs[run].seed, work(plan, run))
        for key, sweep in plan.sweeps.items()
        for run in sweep.runs
        if not trains_alone(plan, run)
    )
    return round(groups.total() / len(groups)) if groups else 1


def _steps(
    task: TaskSpec,
    columns: Mapping[str, list],
    directory: Path,
    settings: Settings,
    tokens: float,
    planned: int,
    device: torch.device,
) -> tuple[int, list[Step]]:
    """How many runs of vectors share a step, and steps of them, of one alone and of matrices.

    Args:
        tokens: of a row, as estimates count them.
        planned: how many runs may share a step.
    """
    model = load_model(directory, task.of_kind.head, task.outputs).to(device)
    train = _examples(task, columns, directory, settings)
    dimensions = dimensions_in(directory)
    flops = dimensions.forward_flops(tokens, task.of_kind.head)
    members = _members(model, settings)
    # Of vectors, where some method trains them.
    sharing = list(members.values())[-1:]
    beside = min(planned, runs_at_once(model, train, sharing))
    if model.transformers is not None:
        # Whether they can share a step is only known once they have tried.
        beside = 1
    of_a_row = (
        (1 + TIMED) * flops * sum(work.value for work in (*members, *[Work.VECTORS] * beside))
    )
    rows = min(settings.batch_size, max(2, int(SECONDS * LAPTOP_FLOPS / of_a_row)), len(train))

    def step(work: Work, rows: int, runs: int) -> Step:
        index = _typical(train.lengths, rows)
        seconds = _seconds_of_step(model, train, index, task, members[work], runs)
        return Step(seconds / runs, work.value * rows * flops, dimensions.num_hidden_layers / runs)

    sizes = {Work.MATRICES: [(rows, 1)], Work.VECTORS: [(rows, beside), (1, 1)]}
    return beside, [step(work, *size) for work in members for size in sizes[work]]


def _members(model: Encoder, settings: Settings) -> dict[Work, Member]:
    """A run that trains matrices and one that trains vectors, where some method does."""
    recipe = Recipe(
        learning_rate=1e-5,
        batch_size=settings.batch_size,
        epochs=1,
        schedule="constant",
        warmup=0,
        weight_decay=0,
        max_grad_norm=1,
        precision="fp32",
    )
    by_work = {METHODS[method].work(): METHODS[method] for method in reversed(settings.methods)}
    return {
        work: Member(by_work[work].resolve(shapes_of(model), seed=0), recipe, seed=0)
        for work in (Work.MATRICES, Work.VECTORS)
        if work in by_work
    }


def _examples(
    task: TaskSpec, columns: dict[str, list], directory: Path, settings: Settings
) -> Examples:
    rows = some_of(columns, ROWS)
    tokens = encoded(task, rows, directory, settings.max_length)
    return Examples(datasets.Dataset.from_dict(tokens), task.of_kind.reads)


def _typical(lengths: np.ndarray, rows: int) -> np.ndarray:
    """Examples at equal distances from the shortest to the longest, which is none of them."""
    order = np.argsort(lengths, kind="stable")
    places = (np.arange(rows) + 0.5) * len(order) / rows
    return by_length(order[places.astype(int)], lengths)


def _seconds_of_step(
    model: Encoder, train: Examples, index: np.ndarray, task: TaskSpec, member: Member, runs: int
) -> float:
    """How long equal runs take for a step side by side, as `subtune.training.recipe` takes it."""
    stacked = StackedParameters(model, [member.entries] * runs, member.seed)
    matrices = Matrices(model, member.entries)
    optimised = [
        Run(number, member.recipe, [values, *matrices.leaves])
        for number, values in enumerate(stacked.values)
    ]
    masks = DropoutMasks(member.seed, model.device)

    def step() -> None:
        packed = pack(train, index, model)
        predicted = logits(model, packed, stacked.weights() | matrices.weights(), masks)
        losses = task.of_kind.losses(predicted, packed.labels, packed.read_of)
        losses.sum().backward()
        for run in optimised:
            run.step(member.recipe.one_learning_rate)
        matrices.write()

    return _seconds(step, model.device)


def fitted(steps: Iterable[Step], fastest: float) -> tuple[float, float]:
    """Floating-point operations per second, and milliseconds per layer beside them, of some steps.

    Both are what makes the sum of squared relative errors of the steps' seconds least. The second
    is not below 0, and the first not above ``fastest``.
    """
    measured = list(steps)
    shares = np.array([[step.flops, step.layers] for step in measured], dtype=float)
    shares /= np.array([[step.seconds] for step in measured])
    (seconds_per_flop, seconds_per_layer), _ = nnls(shares, np.ones(len(measured)))
    return 1 / max(seconds_per_flop, 1 / fastest), 1e3 * seconds_per_layer
