"""Dropout masks; compiled operations of training steps, beside the plain ones.

Torch's backend `aot_eager` traces and differentiates as the compiler for a GPU does, and needs no
compiler of C++.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from subtune.methods import SELECTION
from subtune.models import operations
from subtune.models.encoder import add_adapters, load_encoder, with_new_classifier
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.forward import compute_logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack_batch
from subtune.training.values import TrainedValues
from tests.helpers import examples

# Both compute in float64 and differ, if at all, in the order of sums.
EXACT = {"rtol": 1e-12, "atol": 1e-14}
CPU = torch.device("cpu")


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_masks_drop_as_often_as_they_say_and_keep_the_mean(p):
    mask = DropoutMasks(0, torch.device("cpu")).draw_mask((1000, 1001), p)
    # Five standard deviations of a share of 1,001,000 draws.
    within = 5 * (p * (1 - p) / mask.numel()) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(p, abs=within)
    assert mask.max().item() == pytest.approx(1 / (1 - p))


def test_a_seed_decides_the_masks_which_all_differ():
    (first, second), same, (other, _) = (
        [stream.draw_mask((7, 9), 0.5) for _ in range(2)]
        for stream in (DropoutMasks(seed, torch.device("cpu")) for seed in (3, 3, 4))
    )
    assert torch.equal(torch.stack([first, second]), torch.stack(same))
    assert not torch.equal(first, second) and not torch.equal(first, other)


@pytest.fixture
def compiler(monkeypatch):
    """The compiler, which counts the functions that it compiles."""
    torch._dynamo.reset()
    counting = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    operations._compile_operations.cache_clear()
    yield counting
    operations._compile_operations.cache_clear()
    torch._dynamo.reset()


@pytest.fixture
def model(tiny_bert):
    """A BERT with dropout, in float64."""
    read = with_new_classifier(load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2), 0)
    read.config.hidden_dropout_prob = read.config.attention_probs_dropout_prob = 0.1
    return replace(read, parameters={n: v.double() for n, v in read.parameters.items()})


def with_fused(model, report=print):
    fused = operations.compile_operations(model.config, model.parameters, report)
    return replace(model, fused=fused)


def with_entries(kind, model):
    """Return the model in which a kind's entries train, and these entries."""
    if not kind.startswith("adapter"):
        return model, examples.entries_of(kind, model)
    selection = SELECTION.validate_python({"adapter": {"type": kind.split()[1], "size": 8}})
    model = add_adapters(model, selection.adapter, 0)
    return model, selection.resolve(model.shapes, 0)


def values_of(model, entries, runs):
    """Return values that differ by run, some steps away from the pretrained ones."""
    values = TrainedValues(model, [entries] * runs, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for run in range(runs):
            for leaf in values.leaves(run):
                leaf += 0.1 * torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype)
    values.copy_leaves()
    return values


def batch_of(model, length):
    """Return four texts of up to some tokens."""
    ids = [[2, *range(5, 3 + length - less), 3] for less in range(4)]
    types = [[0] * len(text) for text in ids]
    return pack_batch(examples.packable(ids, [0, 1, 1, 0], types), np.arange(4), model)


def step(model, values, batch):
    """Return logits, and the gradients of every run, under the masks of one seed."""
    values.clear_gradients()
    computed = compute_logits(model, batch, values.weights(), DropoutMasks(3, CPU))
    computed.sin().sum().backward()
    runs = range(len(computed))
    return computed, [gradient for run in runs for gradient in values.gradients(run)]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [pytest.param(1, marks=pytest.mark.nightly), 3])
@pytest.mark.parametrize(
    "kind",
    [
        "layernorm",
        "full",
        *(
            pytest.param(kind, marks=pytest.mark.nightly)
            for kind in ("bitfit", "lora-II", "adapter houlsby", "adapter pfeiffer")
        ),
    ],
)
def test_compiled_operations_give_the_plain_logits_and_gradients(kind, runs, model, compiler):
    model, entries = with_entries(kind, model)
    values, batch = values_of(model, entries, runs), batch_of(model, 9)
    expected = step(model, values, batch)
    found = step(with_fused(model), values, batch)
    torch.testing.assert_close(found, expected, **EXACT)
    assert compiler.frame_count


@pytest.mark.nightly
@pytest.mark.slow
def test_other_numbers_of_tokens_and_runs_are_not_compiled_again(model, compiler):
    compiled = with_fused(model)

    def compiled_for(kind, runs, lengths):
        before = compiler.frame_count
        values = values_of(model, examples.entries_of(kind, model), runs)
        for length in lengths:
            step(compiled, values, batch_of(model, length))
        return compiler.frame_count - before

    # What needs a gradient differs in the first layer, in the others and in the last.
    assert compiled_for("layernorm", 4, [6]) <= 6
    assert compiled_for("layernorm", 4, [7, 8, 9, 10, 11]) == 0
    assert compiled_for("layernorm", 2, [6, 12]) == 0
    assert compiled_for("full", 2, [6, 7]) <= 2
    assert compiled_for("full", 5, [8, 9]) == 0


@pytest.mark.slow
def test_without_a_compiler_a_step_has_plain_operations(model, monkeypatch):
    def fails(function):
        def call(*operands):
            raise RuntimeError("fatal error: Python.h: No such file or directory")

        return call

    operations._compile_operations.cache_clear()
    monkeypatch.setattr(torch, "compile", fails)
    lines = []
    assert with_fused(model, lines.append).fused is None
    assert lines == [
        "operations are not compiled, so training is slower: "
        "fatal error: Python.h: No such file or directory"
    ]
    operations._compile_operations.cache_clear()
