"""Transformers' own pass: batches of fixed shape, runs side by side, what a CUDA graph can hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from subtune.models.encoder import load_encoder, make_transformers_model, with_new_classifier
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.forward import compute_hidden_states, compute_logits
from subtune.models.operations import DropoutMasks, LowRankUpdate, PerRun
from subtune.models.packing import pack_batch
from subtune.models.peft import inject_peft
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.families import dropout_fields
from tests.helpers.peft_types import selection_of
from tests.helpers.reference import slopes_with_dropout

ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 9, 3], [2, 9, 8, 7, 5, 3]]
LABELS = [1, 0, 1, 0]
FAMILIES = [
    "albert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "gpt2",
    "modernbert",
    "qwen2",
]


@pytest.fixture
def model_of(copied, directory_of):
    """A function from a family to a tiny model with dropout, and a classifier that is not zero."""

    def model_of(family, head=SEQUENCE_CLASSIFICATION):
        dropout = dropout_fields(directory_of(family), 0.1)
        return with_new_classifier(load_encoder(copied(family, **dropout), head, 2), 0)

    return model_of


def batch_of(model, reads=None):
    labels = [[0] * len(of) for of in reads] if isinstance(reads, list) else LABELS
    return pack_batch(examples.packable(ROWS, labels, None, reads), np.arange(len(ROWS)), model)


def weights_of(model, runs, names=None):
    """Return values of each run, which differ by run, for these parameters or all."""
    torch.manual_seed(0)
    return {
        name: PerRun((v + 0.05 * torch.randn_like(v.expand(runs, *v.shape))).requires_grad_())
        for name, v in model.parameters.items()
        if names is None or name in names
    }


def leaves_of(weights):
    leaves = (leaf for weight in weights.values() for leaf in vars(weight).values())
    # A tensor of each run's own may have no list of rows.
    return [leaf for leaf in leaves if leaf is not None]


def gradients_of(predicted, leaves):
    return torch.autograd.grad(predicted.square().sum(), leaves, materialize_grads=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_is_that_of_the_loss_with_the_same_dropout(family, model_of):
    model = model_of(family)
    found, expected = slopes_with_dropout(model, batch_of(model))
    assert found == pytest.approx(expected, rel=5e-3)


class NoCopy(TorchDispatchMode):
    """Refuses tensors that come from the host, except single numbers: a kernel's arguments."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        every = [x for x in tree_leaves((args, kwargs, found)) if isinstance(x, Tensor)]
        from_host = [x for x in every if x.device.type == "cpu"]
        copies = func._schema.name in ("aten::_to_copy", "aten::copy_")
        if len(from_host) < len(every):
            assert not any(copies or x.numel() > 1 for x in from_host), (
                f"{func} copies from the host"
            )
        return found


class NoNewTensor(TorchFunctionMode):
    """Refuses tensors of Python's values."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            assert found.device.type == "cpu", f"{func} copies from the host"
        return found


class Kept:
    """Dropout masks that keep everything."""

    device = torch.device("meta")

    def draw_mask(self, shape, p):
        return torch.ones(shape, device=self.device)

    def draw_seed(self):
        return 0


@pytest.fixture
def on_a_device(monkeypatch):
    """A function that takes a step of two runs on a device whose tensors have no values.

    To read a value raises an error there, as it does while a GPU captures a graph. Transformers
    asks whether it does.
    """
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    def step(model, reads=None, names=None):
        there = model.to("meta")
        batch, weights = batch_of(there, reads), weights_of(there, 2, names)
        with NoCopy(), NoNewTensor():
            gradients_of(compute_logits(there, batch, weights, Kept()), leaves_of(weights))

    return step


@pytest.mark.parametrize("head", [SEQUENCE_CLASSIFICATION, MEAN_CLASSIFICATION])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_reads_no_value_on_the_host(family, head, model_of, on_a_device):
    on_a_device(model_of(family, head), None if head == SEQUENCE_CLASSIFICATION else "all")


@pytest.mark.parametrize("of_type", ["LORA", "IA3", "VERA", "LN_TUNING", "BOFT"])
def test_a_step_in_modules_of_peft_reads_no_value_on_the_host(of_type, model_of, on_a_device):
    selection = selection_of(of_type, "qwen2")
    model = inject_peft(model_of("qwen2"), selection.peft, 0)
    on_a_device(model, names=selection.resolve(model.shapes, 0))


def test_a_value_read_on_the_host_is_found(model_of, on_a_device, monkeypatch):
    model = model_of("electra")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.raises(Exception, match="meta tensors"):
        on_a_device(model)


def with_tail(batch, tokens, unread=0):
    """Return a batch with tokens of no example at its end, and a longer longest example."""
    count = len(batch.first_tokens)

    def longer(values, value, more=tokens):
        return None if values is None else torch.cat([values, values.new_full((more,), value)])

    return replace(
        batch,
        ids=longer(batch.ids, batch.ids[0]),
        token_type_ids=longer(batch.token_type_ids, 0),
        positions=longer(batch.positions, 0),
        example=longer(batch.example, count),
        reads=longer(batch.reads, 0, unread),
        read_of=longer(batch.read_of, count, unread),
        longest=batch.longest + 2,
    )


READS = {
    SEQUENCE_CLASSIFICATION: None,
    TOKEN_CLASSIFICATION: [[1, 3], [1], [1, 2], [4]],
    QUESTION_ANSWERING: "all",
    MEAN_CLASSIFICATION: "all",
}


@pytest.mark.parametrize("head", READS)
@pytest.mark.parametrize("family", ["deberta-v2", "electra", "gpt2", "modernbert"])
def test_tokens_of_no_example_change_no_logits(family, head, directory_of):
    model = with_new_classifier(load_encoder(directory_of(family), head, 2), 0)
    batch = batch_of(model, READS[head])
    expected = compute_logits(model, batch)
    longer = with_tail(batch, 5, unread=3 if READS[head] else 0)
    found = compute_logits(model, longer)[:, : expected.shape[1]]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    states, more = (compute_hidden_states(model, of) for of in (batch, longer))
    torch.testing.assert_close(more[: len(states)], states, rtol=1e-5, atol=1e-6)


def assert_as_alone(model, weights):
    """Compare logits and gradients of runs side by side with those of each run alone."""
    leaves = leaves_of(weights)

    def compute(of):
        return compute_logits(model, batch_of(model), of, DropoutMasks(0, model.device))

    together = compute(weights)
    found = gradients_of(together, leaves)
    for run in range(len(together)):
        alone = {
            name: type(weight)(*(leaf[run : run + 1] for leaf in leaves_of({name: weight})))
            for name, weight in weights.items()
        }
        expected = compute(alone)
        torch.testing.assert_close(together[run : run + 1], expected, rtol=1e-10, atol=1e-12)
        scale = max(g.abs().max() for g in found)
        for mine, theirs in zip(found, gradients_of(expected, leaves), strict=True):
            torch.testing.assert_close(mine[run], theirs[run], rtol=1e-10, atol=1e-10 * scale)


def doubled(model):
    theirs = model.transformers
    parameters = {name: value.double() for name, value in model.parameters.items()}
    buffers = {n: v.double() if v.is_floating_point() else v for n, v in theirs.buffers.items()}
    return replace(model, parameters=parameters, transformers=replace(theirs, buffers=buffers))


@pytest.mark.parametrize("head", [SEQUENCE_CLASSIFICATION, MEAN_CLASSIFICATION])
def test_losses_and_means_in_bf16_are_those_of_logits_in_float32(head, directory_of):
    model = with_new_classifier(load_encoder(directory_of("electra"), head, 2), 0)
    batch = batch_of(model, "all" if head == MEAN_CLASSIFICATION else None)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        [logits] = compute_logits(model, batch)
        inputs = {"input_ids": torch.zeros(4, 6, dtype=torch.long)}
        inputs["input_ids"][batch.example, batch.positions] = batch.ids
        inputs["attention_mask"] = (inputs["input_ids"] > 0).long()
        plain = make_transformers_model(model, attn_implementation="eager").eval()
        theirs = plain(**inputs).logits
    expected = theirs.float()
    if head == MEAN_CLASSIFICATION:
        texts = zip(expected, inputs["attention_mask"].bool(), strict=True)
        expected = torch.stack([text[is_token].mean(0) for text, is_token in texts])
    assert theirs.dtype == torch.bfloat16
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)
    labels, example = torch.tensor(LABELS), torch.arange(4)
    [loss] = TASKS["sst2"].of_kind.losses(logits[None], labels, example)
    loss_of_theirs = functional.cross_entropy(expected, labels, reduction="sum")
    torch.testing.assert_close(loss, loss_of_theirs, rtol=1e-6, atol=0)


# GPT-2 stores matrices as [i, o], ALBERT's layers share theirs, and BART has a tied table.
@pytest.mark.parametrize("family", [*FAMILIES, "bart"])
def test_runs_with_their_own_values_of_everything_compute_as_alone(family, model_of):
    model = doubled(model_of(family))
    assert_as_alone(model, weights_of(model, 2))


@pytest.mark.parametrize("family", ["deberta-v2", "gpt2", "modernbert", "qwen2"])
def test_runs_with_low_rank_updates_compute_as_alone(family, model_of):
    model = doubled(model_of(family))
    matrices = {
        name: value
        for name, value in model.parameters.items()
        if name.startswith("encoder.layer.") and value.ndim == 2
    }
    names = [name for name in model.parameters if name not in matrices]
    weights = weights_of(model, 2, names)
    for name, matrix in matrices.items():
        outputs, inputs = matrix.shape
        shapes = (2, 3, inputs), (2, outputs, 3)
        weights[name] = LowRankUpdate(
            *(torch.randn(of, dtype=torch.double).mul_(0.1).requires_grad_() for of in shapes)
        )
    assert_as_alone(model, weights)


@pytest.mark.parametrize("of_type", ["LORA", "IA3", "VERA", "LN_TUNING", "BOFT", "PREFIX_TUNING"])
def test_runs_in_modules_of_peft_compute_as_alone(of_type, model_of):
    selection = selection_of(of_type, "qwen2")
    model = doubled(inject_peft(model_of("qwen2"), selection.peft, 0))
    assert_as_alone(model, weights_of(model, 2, selection.resolve(model.shapes, 0)))
