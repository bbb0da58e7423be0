"""Training steps as CUDA graphs: a GPU replays a step without waiting for Python.

A step starts thousands of kernels, and starting a kernel takes longer than running it. The first
batch of a shape is an ordinary step. With the second batch of this shape, the step's kernels are
captured. From then on, a step copies its inputs into the captured batch's tensors and replays the
kernels. Therefore no code of a step may read the value of a tensor, and all state must change in
place.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache

import torch
from torch import Tensor

from subtune.core.errors import reason_of
from subtune.core.process import is_out_of_memory
from subtune.models.packing import Packed

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
            self._report(f"steps run without CUDA graphs, which takes longer: {reason_of(error)}")
            return None
        return graph, batches


@cache
def _stream() -> torch.cuda.Stream:
    """Return the one stream of all steps: matrix products keep memory for every stream."""
    return torch.cuda.Stream()
