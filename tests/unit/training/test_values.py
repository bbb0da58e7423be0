"""Trained values, deltas in memory and in a file."""

import math
from functools import cache

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subtune.methods.added import Lora, LoraSettings
from subtune.methods.roles import is_embedding
from subtune.methods.selection import WholeTensors, count_trained
from subtune.methods.single_entries import Draw, Lines, Random, Ranked, Top
from subtune.models.encoder import load_encoder, with_new_classifier
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.operations import LowRankUpdate, PerRun, SparseEntries
from subtune.training.deltas import (
    AddedUpdate,
    ChangedEntries,
    ChangedTensor,
    applied,
    from_stored,
    to_stored,
)
from subtune.training.values import TrainedValues

EXACT = {"rtol": 0, "atol": 0}
SIZES = st.integers(1, 5)


def from_file(stored):
    return safetensors.numpy.load(safetensors.torch.save(stored))


@st.composite
def changes(draw):
    """A pretrained tensor, a change of it, and the tensor's values after the change."""
    shape = draw(st.lists(SIZES, min_size=1, max_size=3))
    torch.manual_seed(draw(st.integers(0, 99)))
    pretrained = torch.randn(shape)
    kind = draw(st.sampled_from(["whole", "entries", "update"]))
    if kind == "whole":
        values = torch.randn(shape)
        return pretrained, ChangedTensor(values), values
    if kind == "entries":
        index = draw(st.sets(st.integers(0, pretrained.numel() - 1), min_size=1))
        values, after = torch.randn(len(index)), pretrained.clone()
        for place, value in zip(sorted(index), values, strict=True):
            after.view(-1)[place] = value
        return pretrained, ChangedEntries(values, torch.tensor(sorted(index))), after
    outputs, inputs, rank = draw(SIZES), draw(SIZES), draw(SIZES)
    pretrained, scale = torch.randn(outputs, inputs), draw(st.integers(1, 9)) / rank
    lora_a, lora_b = torch.randn(rank, inputs), torch.randn(outputs, rank)
    return pretrained, AddedUpdate(lora_a, lora_b, scale), pretrained + scale * (lora_b @ lora_a)


@settings(max_examples=50)
@given(st.lists(changes(), min_size=1, max_size=5))
def test_a_delta_from_its_file_gives_the_trained_values_bit_for_bit(made):
    parameters = {f"p{number}.weight": one for number, (one, _, _) in enumerate(made)}
    delta = {f"p{number}.weight": change for number, (_, change, _) in enumerate(made)}
    expected = {f"p{number}.weight": after for number, (_, _, after) in enumerate(made)}
    frozen = {"frozen": torch.ones(1)}
    stored = to_stored(delta)
    read = from_stored(from_file(stored))
    torch.testing.assert_close(to_stored(read), stored, **EXACT)
    assert {name: type(one) for name, one in read.items()} == {n: type(c) for n, c in delta.items()}
    for one in (delta, read):
        torch.testing.assert_close(applied(parameters | frozen, one), expected | frozen, **EXACT)


@cache
def model_at(directory):
    return with_new_classifier(load_encoder(directory, SEQUENCE_CLASSIFICATION, 2), 0)


@st.composite
def selections(draw, shapes):
    """A selection of any kind that trains tensors of a model, and the ranks that it reads."""
    encoder = [name for name in shapes if not name.startswith("classifier")]
    matrices = [name for name in encoder if len(shapes[name]) == 2]
    linear = [name for name in matrices if not is_embedding(name)]

    def some(names, least=1):
        return tuple(draw(st.lists(st.sampled_from(names), min_size=least, max_size=4)))

    kind = draw(st.sampled_from(["whole", "draw", "as many", "lines", "top", "lora"]))
    whole = some(encoder)
    if kind == "whole":
        return WholeTensors(parameters=whole, without=some(encoder, 0) or None), None
    if kind == "lines":
        return Random(random=Lines(lines_of=some(matrices), whole=None)), None
    if kind == "lora":
        targets = some(linear)
        others = tuple(name for name in whole if name not in targets) or None
        lora = LoraSettings(targets=targets, rank=draw(SIZES), alpha=draw(SIZES))
        return Lora(lora=lora, parameters=others), None
    if kind == "as many":
        return Random(random=Draw(as_many_as=whole, within=("**",))), None
    numbers = sum(math.prod(shapes[name]) for name in {*whole})
    if kind == "draw":
        return Random(random=Draw(count=draw(st.integers(1, numbers)), within=whole)), None
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(numbers).astype(np.int32)
    ends = np.cumsum([math.prod(shapes[name]) for name in dict.fromkeys(whole)])
    pieces = np.split(order, ends[:-1])
    ranks = dict(zip(dict.fromkeys(whole), pieces, strict=True))
    return Top(top=Ranked(ranking="r", fraction=draw(st.floats(0.01, 1)))), ranks


@pytest.mark.parametrize("number_of_runs", [1, 2])
@settings(max_examples=40)
@given(data=st.data())
def test_as_many_values_may_change_as_count_says_and_the_pass_reads_them(
    number_of_runs, data, tiny_bert
):
    """Every leaf is changed. A single run keeps the entries of a matrix apart, several do not."""
    model = model_at(tiny_bert)
    shapes = model.shapes
    selection, ranks = data.draw(selections(shapes))
    members = [selection.resolve(shapes, seed=0, ranks=ranks)] * number_of_runs
    values = TrainedValues(model, members, seed=0)
    with torch.no_grad():
        for run in range(number_of_runs):
            for leaf in values.leaves(run):
                leaf += run + 1
    values.write()
    for run, entries in enumerate(members):
        delta = values.delta(run, values.leaves(run))
        delta = from_stored(from_file({key: v.detach() for key, v in to_stored(delta).items()}))
        after = applied(model.parameters, delta)
        assert delta.keys() == entries.keys()
        changed = 0
        for name, weight in values.weights([run]).items():
            match weight:
                case PerRun(found):
                    torch.testing.assert_close(found[0], after[name], **EXACT)
                case SparseEntries(matrix):
                    torch.testing.assert_close(matrix, after[name], **EXACT)
                case LowRankUpdate(lora_a, lora_b):
                    update = delta[name]
                    torch.testing.assert_close(lora_a[0], update.lora_a, **EXACT)
                    torch.testing.assert_close(lora_b[0], update.scale * update.lora_b, **EXACT)
                    changed += update.lora_a.numel() + update.lora_b.numel()
                    continue
            changed += int((after[name] != model.parameters[name]).sum())
        assert (
            changed == count_trained(entries, shapes) == sum(map(torch.numel, values.leaves(run)))
        )
