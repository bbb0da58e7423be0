"""The parts of a training step outside the model: AdamW, the learning rate, and CUDA graphs.

Launching the thousands of kernels of a step takes longer than running them. With a CUDA graph, a
GPU replays them without waiting for Python. Python runs the step on the first batch of each shape.
At the second batch of this shape, the kernels are captured. Each later batch is copied into the
tensors of the captured batch, and the kernels are replayed. Therefore the code of a step must not
read the value of a tensor in Python, and must change all state in place.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from subtune.core.errors import error_reason
from subtune.core.process import is_out_of_memory
from subtune.models.packing import PackedBatch
from subtune.runs.spec import Recipe


class AdamW:
    """AdamW with torch's fused kernel, for the leaves of an autograd graph.

    `torch.optim.AdamW` computes the same updates, but importing it delays each job by a second.
    """

    def __init__(self, leaves: Sequence[Tensor], weight_decay: float):
        self.leaves = leaves
        self._weight_decay = weight_decay
        self.betas = 0.9, 0.999
        self._first_moments = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._second_moments = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._steps = [torch.zeros((), device=leaf.device) for leaf in leaves]

    @torch.no_grad()
    def step(
        self,
        gradients: Sequence[Tensor | None],
        learning_rate: float | Tensor,
        max_grad_norm: float,
    ) -> None:
        """Clip the total norm of the gradients, and update the leaves that have a gradient."""
        moments = self._first_moments, self._second_moments
        states = zip(self.leaves, gradients, *moments, self._steps, strict=True)
        updated = [(leaf, grad, *rest) for leaf, grad, *rest in states if grad is not None]
        if not updated:
            return
        leaves, grads, first, second, steps = map(list, zip(*updated, strict=True))
        norm = nn.utils.get_total_norm(grads)
        torch._foreach_mul_(grads, (max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        beta1, beta2 = self.betas
        settings: dict[str, Any] = {"lr": learning_rate, "beta1": beta1, "beta2": beta2}
        settings |= {"weight_decay": self._weight_decay, "eps": 1e-8, "fused": True}
        adamw(leaves, grads, first, second, [], steps, amsgrad=False, maximize=False, **settings)

    def state(self) -> list[Tensor]:
        """Return the leaves, their moments and step counts, from which `restore` continues."""
        return [*self.leaves, *self._first_moments, *self._second_moments, *self._steps]

    @torch.no_grad()
    def restore(self, state: Sequence[Tensor]) -> None:
        for tensor, saved in zip(self.state(), state, strict=True):
            tensor.copy_(saved)


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Compute the learning rate after ``step`` of ``steps`` steps, from warmup and schedule."""
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)


# A function that takes a training step, given packed batches and one learning rate per run.
Step = Callable[[Sequence[PackedBatch], Sequence[Tensor]], None]
BatchShapes = tuple[tuple[int, ...], ...]


class Graphs:
    """CUDA graphs that replay training steps, one for each shape of the batches.

    Args:
        runs: the number of runs that train side by side.
        generators: the random generators that a step uses, and that a replay advances.
        report: is called with a line if steps cannot be captured.
    """

    def __init__(
        self, runs: int, generators: Sequence[torch.Generator], report: Callable[[str], None]
    ):
        self._generators, self._report = generators, report
        self._rates = torch.zeros(runs, device="cuda")
        self._seen: set[BatchShapes] = set()
        # The graphs of captured steps, and the batches that contain their input tensors.
        self._captured: dict[BatchShapes, tuple[torch.cuda.CUDAGraph, Sequence[PackedBatch]]] = {}
        # All steps use the same stream, because a capture must not wait for another stream.
        self._stream = _shared_stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._can_capture = True

    def recreate(self, runs: int) -> "Graphs":
        """Return a copy for fewer runs, without captured steps, because these compute all runs."""
        fewer = Graphs(runs, self._generators, self._report)
        fewer._can_capture = self._can_capture
        return fewer

    def take_step(self, step: Step, batches: Sequence[PackedBatch], rates: Sequence[float]) -> None:
        """Take a step, by replaying its graph if the step was captured for this shape of batches.

        ``step`` must be the same function in every call. ``rates`` are the runs' learning rates.
        """
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self._stream):
                self._rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
                self._take_on_stream(step, batches)
        finally:
            outside.wait_stream(self._stream)

    def _take_on_stream(self, step: Step, batches: Sequence[PackedBatch]) -> None:
        shape = tuple(batch.shape for batch in batches)
        if shape in self._seen and shape not in self._captured and self._can_capture:
            self._capture(step, batches, shape)
        self._seen.add(shape)
        if shape not in self._captured:
            step(batches, self._rates.unbind())
            return
        graph, inputs = self._captured[shape]
        for new, old in zip(batches, inputs, strict=True):
            for name in (field.name for field in fields(PackedBatch)):
                if isinstance(values := getattr(new, name), Tensor):
                    getattr(old, name).copy_(values, non_blocking=True)
        graph.replay()

    def _capture(self, step: Step, batches: Sequence[PackedBatch], shape: BatchShapes) -> None:
        """Capture a step without running it, if it can be captured."""
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                step(batches, self._rates.unbind())
        except Exception as error:
            for generator in self._generators:
                # Without a new state, the generator could not draw numbers after a failed capture.
                generator.graphsafe_set_state(generator.clone_state())
            if is_out_of_memory(error):
                raise
            self._can_capture = False
            self._report(f"CUDA graphs are not used, so training is slower: {error_reason(error)}")
        else:
            self._captured[shape] = graph, batches


@cache
def _shared_stream() -> torch.cuda.Stream:
    """Return the stream of all steps, because torch keeps a workspace for matmul per stream."""
    return torch.cuda.Stream()
