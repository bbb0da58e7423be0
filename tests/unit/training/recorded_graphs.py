"""CUDA graphs on a CPU: operations are recorded and repeated, as a GPU does it.

As in a capture, nothing is written while operations are recorded: a tensor changes in a replay
only. Operations that a capture refuses are refused, such as reading a value. A replay repeats the
operations on the same tensors, and calls no code of the step.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from subtune.models import forward
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack_batch
from subtune.tasks.examples import sort_by_length
from subtune.training import recipe, training_step

# A CPU waits for the values or the shapes of their results.
REFUSED = [
    *("aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal", "aten::nonzero"),
    *("aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::bincount"),
]
PERMITTED = "operation not permitted when stream is capturing"


class Recorded(TorchDispatchMode):
    """A graph: operations with their operands and results."""

    def __init__(self):
        super().__init__()
        self._operations, self._generators = [], []
        self.replays = 0

    def register_generator_state(self, generator):
        self._generators.append(generator._cdata)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        by_mask = [of for of in tree_leaves(args[1:2]) if getattr(of, "dtype", 0) == torch.bool]
        if func._schema.name in REFUSED or ("aten::index" in func._schema.name and by_mask):
            raise RuntimeError(f"{func._schema.name}: {PERMITTED}")
        generator = kwargs.get("generator")
        if generator is not None and generator._cdata not in self._generators:
            raise RuntimeError("the generator is not registered with the graph")
        compute = partial(func, *args, **kwargs)
        if any(of.alias_info and of.alias_info.is_write for of in func._schema.arguments):
            self._operations.append((compute, None))
            return args[0] if func._schema.returns else None
        result = compute()
        if not any(of.alias_info for of in func._schema.returns):
            self._operations.append((compute, result))
        return result

    @torch.no_grad()
    def replay(self):
        self.replays += 1
        for compute, result in self._operations:
            new = compute()
            if result is not None:
                for one, other in zip(tree_leaves(result), tree_leaves(new), strict=True):
                    if isinstance(one, torch.Tensor):
                        one.copy_(other)


def stand_in(monkeypatch):
    """Let graphs of this CPU stand for CUDA's, and return the list of all that are made."""
    made = []

    def new_graph():
        made.append(Recorded())
        return made[-1]

    @contextmanager
    def capture(graph, pool, stream):
        with graph:
            yield

    stream = SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        stream=lambda chosen: nullcontext(),
        current_stream=lambda: stream,
        graph_pool_handle=lambda: None,
        CUDAGraph=new_graph,
        graph=capture,
    )
    here = {"cuda": cuda, "zeros": lambda *size, device: torch.zeros(*size)}
    on_a_cpu = SimpleNamespace(**vars(torch) | here)
    monkeypatch.setattr(training_step, "torch", on_a_cpu)
    monkeypatch.setattr(training_step, "_shared_stream", lambda: stream)
    # Transformers' code asks, and then reads no value.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", is_captured)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    return made


def is_captured():
    """Return whether operations are recorded now."""
    return isinstance(_get_current_dispatch_mode(), Recorded)


def train_with_batches_of_a_gpu(monkeypatch):
    """Let training use batches, attention, dropout and learning rates as on a GPU."""
    rate_at = recipe.learning_rate_at

    monkeypatch.setattr(recipe, "pack_micro_batches", pack_as_on_a_gpu)
    monkeypatch.setattr(forward, "jagged_attention", attention)
    monkeypatch.setattr(recipe, "DropoutMasks", Masks)
    # Rates are float32 tensors.
    monkeypatch.setattr(recipe, "learning_rate_at", lambda *of: torch.tensor(rate_at(*of)).item())


def pack_as_on_a_gpu(examples, index, encoder, fixed_shape):
    """Pack a batch with a tail, and with attention within examples."""
    index = sort_by_length(index, examples.lengths)
    return [(index, replace(pack_batch(examples, index, encoder, True), buckets=()))]


def train_with_graphs(monkeypatch):
    """Let training on this CPU take its steps through graphs."""
    initialise = recipe._Group.__init__

    def with_graphs(group, model, examples, task, runs, report):
        initialise(group, model, examples, task, runs, report)
        group.graphs = training_step.Graphs(len(runs), group._masks.generators, report)

    monkeypatch.setattr(recipe._Group, "__init__", with_graphs)


def attention(query, key, value, heads, starts, longest, p):
    """Attention within sequences of tokens, over all pairs of tokens and without dropout."""
    sequence = (starts[:, None] <= torch.arange(key.shape[1])).sum(0) - 1
    asking = sequence if query.shape == key.shape else torch.arange(len(starts))
    query, key, value = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (query, key, value))
    scores = query @ key.mT * query.shape[-1] ** -0.5
    scores = scores.masked_fill(asking[:, None] != sequence, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


class Generator(torch.Generator):
    """A generator that a graph may hold."""

    def graphsafe_set_state(self, state):
        self.set_state(state.get_state())


class Masks(DropoutMasks):
    """Dropout masks from torch's generator, as on a GPU."""

    def __init__(self, seed, device):
        super().__init__(seed, device)
        self.generators = [Generator().manual_seed(seed)]

    def draw_mask(self, shape, p):
        return torch.empty(shape).bernoulli_(1 - p, generator=self.generators[0]).mul_(1 / (1 - p))
