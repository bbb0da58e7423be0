"""Trained values, deltas in memory and in a file."""

import math
from dataclasses import replace
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
from subtune.methods.rules import choose_entries
from subtune.methods.selection import WholeTensors, count_trained_parameters
from subtune.methods.single_entries import ChosenEntries, Lines, Random, RandomEntries
from subtune.models.encoder import load_encoder, with_new_classifier
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.operations import LowRankUpdate, PerRun
from subtune.tasks import TASKS
from subtune.training import recipe
from subtune.training.evaluation import autocast
from subtune.training.groups import reason_to_train_alone
from subtune.training.recipe import train
from subtune.training.values import (
    INDEX,
    LORA_A,
    LORA_B,
    LORA_SCALE,
    TrainedValues,
    changed_tensors,
)
from tests.unit.training.recorded_graphs import pack_as_on_a_gpu
from tests.unit.training.results import in_double, loaded, member

EXACT = {"rtol": 0, "atol": 0}
SIZES = st.integers(1, 5)


def from_file(stored):
    return safetensors.torch.load(safetensors.torch.save(stored))


@st.composite
def changes(draw):
    """A pretrained tensor, a change of it, and the tensor's values after the change."""
    shape = draw(st.lists(SIZES, min_size=1, max_size=3))
    torch.manual_seed(draw(st.integers(0, 99)))
    pretrained = torch.randn(shape)
    kind = draw(st.sampled_from(["whole", "entries", "update"]))
    if kind == "whole":
        values = torch.randn(shape)
        return pretrained, {"": values}, values
    if kind == "entries":
        index = draw(st.sets(st.integers(0, pretrained.numel() - 1), min_size=1))
        values, after = torch.randn(len(index)), pretrained.clone()
        for place, value in zip(sorted(index), values, strict=True):
            after.view(-1)[place] = value
        return pretrained, {"": values, INDEX: torch.tensor(sorted(index))}, after
    outputs, inputs, rank = draw(SIZES), draw(SIZES), draw(SIZES)
    pretrained, scale = torch.randn(outputs, inputs), draw(st.integers(1, 9)) / rank
    lora_a, lora_b = torch.randn(rank, inputs), torch.randn(outputs, rank)
    change = {LORA_A: lora_a, LORA_B: lora_b, LORA_SCALE: torch.tensor([scale])}
    return pretrained, change, pretrained + scale * (lora_b @ lora_a)


@settings(max_examples=50)
@given(st.lists(changes(), min_size=1, max_size=5))
def test_a_delta_from_its_file_gives_the_trained_values_bit_for_bit(made):
    parameters = {f"p{number}.weight": one for number, (one, _, _) in enumerate(made)}
    stored = {
        f"p{number}.weight{part}": values
        for number, (_, change, _) in enumerate(made)
        for part, values in change.items()
    }
    expected = {f"p{number}.weight": after for number, (_, _, after) in enumerate(made)}
    frozen = {"frozen": torch.ones(1)}
    read = from_file(stored)
    torch.testing.assert_close(read, stored, **EXACT)
    for delta in (stored, read):
        changed = changed_tensors(parameters | frozen, delta)
        torch.testing.assert_close(changed, expected, **EXACT)


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
        return Random(random=RandomEntries(as_many_as=whole, within=("**",))), None
    numbers = sum(math.prod(shapes[name]) for name in {*whole})
    if kind == "draw":
        return Random(random=RandomEntries(count=draw(st.integers(1, numbers)), within=whole)), None
    random = np.random.default_rng(draw(st.integers(0, 99)))
    scores = {name: random.random(shapes[name]) for name in dict.fromkeys(whole)}
    return ChosenEntries(entries="r"), choose_entries(scores, draw(st.integers(1, numbers)))


@pytest.mark.parametrize("number_of_runs", [1, 2])
@settings(max_examples=40)
@given(data=st.data())
def test_as_many_values_may_change_as_count_says_and_the_pass_reads_them(
    number_of_runs, data, tiny_bert
):
    """Every leaf is changed."""
    model = model_at(tiny_bert)
    shapes = model.shapes
    selection, mask = data.draw(selections(shapes))
    members = [selection.resolve(shapes, seed=0, mask=mask)] * number_of_runs
    values = TrainedValues(model, members, seed=0)
    with torch.no_grad():
        for run in range(number_of_runs):
            for leaf in values.leaves(run):
                leaf += run + 1
    values.copy_leaves()
    for run, entries in enumerate(members):
        delta = from_file(values.delta(run))
        after = changed_tensors(model.parameters, delta)
        assert after.keys() == entries.keys()
        changed = 0
        for name, weight in values.weights([run]).items():
            match weight:
                case PerRun(found):
                    torch.testing.assert_close(found[0], after[name], **EXACT)
                case LowRankUpdate(lora_a, lora_b):
                    stored_a, stored_b = delta[name + LORA_A], delta[name + LORA_B]
                    torch.testing.assert_close(lora_a[0], stored_a, **EXACT)
                    torch.testing.assert_close(lora_b[0], entries[name].scale * stored_b, **EXACT)
                    changed += stored_a.numel() + stored_b.numel()
                    continue
            changed += int((after[name] != model.parameters[name]).sum())
        assert (
            changed
            == count_trained_parameters(entries, shapes)
            == sum(map(torch.numel, values.leaves(run)))
        )


KINDS = ["full", "rand_row_col", "top", "rand_uniform", "lora-II", "bitfit", "layernorm"]
TO_ROUNDING = {"rtol": 1e-10, "atol": 1e-12}


def deltas(model, rows, members, task):
    return [of.delta for of in train(model, rows, task, members)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("task", "decay", "norm"), [("sst2", 0.1, 1e-3), ("stsb", 0.0, 0.5)])
def test_runs_side_by_side_are_the_runs_alone(kind, task, decay, norm, tiny_bert, monkeypatch):
    task = TASKS[task]
    model, rows = loaded(task, tiny_bert)
    model = in_double(model)
    members = [
        member(kind, model, learning_rate=rate, weight_decay=decay, max_grad_norm=norm)
        for rate in (1e-3, 3e-3, 1e-2)
    ]
    alone = [deltas(model, rows, [one], task)[0] for one in members]
    monkeypatch.setattr(recipe, "pack_micro_batches", pack_as_on_a_gpu)
    together = deltas(model, rows, members, task)
    torch.testing.assert_close(together, alone, **TO_ROUNDING)


@pytest.mark.parametrize("kind", ["full", "rand_uniform"])
def test_gradients_of_parts_of_one_length_add_up(kind, directory_of):
    task = TASKS["sst2"]
    model, rows = loaded(task, directory_of("gpt2"))
    model = in_double(model)
    members = [member(kind, model, learning_rate=rate) for rate in (1e-3, 3e-3)]
    alone = [deltas(model, rows, [one], task)[0] for one in members]
    sees_padding = replace(model.transformers, sees_padding=True)
    together = deltas(replace(model, transformers=sees_padding), rows, members, task)
    torch.testing.assert_close(together, alone, **TO_ROUNDING)
    with autocast(model.device, "tf32"):
        pass
    assert reason_to_train_alone(model, rows["train"], members) is None
    assert not torch.backends.cuda.matmul.allow_tf32
