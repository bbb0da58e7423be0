"""What a training step does beside the passes: AdamW, and on a GPU CUDA graphs.

With a graph, a GPU replays a step without waiting for Python. A step starts thousands of kernels,
and starting a kernel takes longer than running it. The first batch of a shape is an ordinary step.
With the second batch of this shape, the step's kernels are captured. From then on, a step copies
its inputs into the captured batch's tensors and replays the kernels. Therefore no code of a step
may read the value of a tensor, and all state must change in place.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from subtune.core.errors import error_reason
from subtune.core.process import is_out_of_memory
from subtune.models.packing import Packed
from subtune.runs.spec import Recipe


class AdamW:
    """AdamW in torch's fused kernel, with one learning rate for each step.

    `torch.optim.AdamW` does the same, but it imports torch's compiler, which takes a second per
    job.
    """

    def __init__(self, leaves: Sequence[Tensor], weight_decay: float):
        self.leaves = leaves
        self._weight_decay = weight_decay
        self.betas = 0.9, 0.999
        self._means = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._squares = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._steps = [torch.zeros((), device=leaf.device) for leaf in leaves]

    @torch.no_grad()
    def step(
        self,
        gradients: Sequence[Tensor | None],
        learning_rate: float | Tensor,
        max_grad_norm: float,
    ) -> None:
        """Clip the gradients, and update the leaves that have one."""
        every = zip(self.leaves, gradients, self._means, self._squares, self._steps, strict=True)
        own = [(leaf, gradient, *rest) for leaf, gradient, *rest in every if gradient is not None]
        if not own:
            return
        leaves, kept, means, squares, steps = map(list, zip(*own, strict=True))
        norm = nn.utils.get_total_norm(kept)
        torch._foreach_mul_(kept, (max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        beta1, beta2 = self.betas
        adamw(
            leaves,
            kept,
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            eps=1e-8,
            weight_decay=self._weight_decay,
        )

    def state(self) -> list[Tensor]:
        """Return the leaves and their averages, for `restore`."""
        return [*self.leaves, *self._means, *self._squares, *self._steps]

    @torch.no_grad()
    def restore(self, state: Sequence[Tensor]) -> None:
        """Continue from a saved state, which `state` returned."""
        for tensor, saved in zip(self.state(), state, strict=True):
            tensor.copy_(saved)


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate of a step, which counts from 0.

    The rate rises linearly during the warm-up, then stays constant or falls linearly to 0.
    """
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)


# A step: its batches, and each run's learning rate.
Step = Callable[[Sequence[Packed], Sequence[Tensor]], None]
Shape = tuple[tuple[int, ...], ...]
# The graph of a step, and the batches that it reads.
Captured = tuple[torch.cuda.CUDAGraph, Sequence[Packed]]


class Graphs:
    """The graphs of a training step, by the shape of its batches.

    Args:
        runs: the number of runs that take the step.
        generators: the generators from which a step draws; replays advance them.
        report: a function that gets a line if steps cannot be captured.
    """

    def __init__(
        self, runs: int, generators: Sequence[torch.Generator], report: Callable[[str], None]
    ):
        self._generators, self._report = generators, report
        self._rates = torch.zeros(runs, device="cuda")
        self._seen: set[Shape] = set()
        self._captured: dict[Shape, Captured] = {}
        # All work is on one stream, because a capture must not wait for another one.
        self._stream = _stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._can_capture = True

    def of_fewer(self, runs: int) -> "Graphs":
        """Return graphs of a step of fewer runs."""
        fewer = Graphs(runs, self._generators, self._report)
        fewer._can_capture = self._can_capture
        return fewer

    def take(self, step: Step, batches: Sequence[Packed], rates: Sequence[float]) -> None:
        """Take a step with these batches and learning rates; ``step`` is the same in every call."""
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self._stream):
                self._rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
                self._take(step, batches)
        finally:
            outside.wait_stream(self._stream)

    def _take(self, step: Step, batches: Sequence[Packed]) -> None:
        shape = tuple(batch.shape for batch in batches)
        if shape in self._seen and shape not in self._captured and self._can_capture:
            captured = self._capture(step, batches)
            if captured:
                self._captured[shape] = captured
        self._seen.add(shape)
        if shape not in self._captured:
            step(batches, self._rates.unbind())
            return
        graph, inputs = self._captured[shape]
        for new, old in zip(batches, inputs, strict=True):
            for name in (field.name for field in fields(Packed)):
                if isinstance(values := getattr(new, name), Tensor):
                    getattr(old, name).copy_(values, non_blocking=True)
        graph.replay()

    def _capture(self, step: Step, batches: Sequence[Packed]) -> Captured | None:
        """Capture a step without taking it; return None if it cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                step(batches, self._rates.unbind())
        except Exception as error:
            for generator in self._generators:
                # After a failed capture, the generator would otherwise refuse to draw.
                generator.graphsafe_set_state(generator.clone_state())
            if is_out_of_memory(error):
                raise
            self._can_capture = False
            self._report(
                f"steps run without CUDA graphs, which takes longer: {error_reason(error)}"
            )
            return None
        return graph, batches


@cache
def _stream() -> torch.cuda.Stream:
    """Return the one stream of all steps: matrix products keep memory for every stream."""
    return torch.cuda.Stream()
