"""Losses of tokens and spans, and gradients of what trains, against transformers' own in float64.

transformers reads one example at a time, without padding, and knows nothing of packing, of runs
side by side or of sparse gradients.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.families.base import QUESTION_ANSWERING, TOKEN_CLASSIFICATION
from subtune.models.load import load_model
from subtune.models.packed import pack
from subtune.models.packed_pass import logits
from subtune.models.weights import LowRankUpdate, PerRun, SparseEntries
from subtune.training.matrices import Matrices
from subtune.training.stacked import StackedParameters
from tests.helpers import examples, reference

TOLERANCE = 1e-10
ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 4, 3], [2, 9, 8, 7, 5, 11, 3]]
READS = {TOKEN_CLASSIFICATION: [[1, 3, 4], [2], [1], [1, 2, 5]], QUESTION_ANSWERING: "all"}
LABELS = {
    TOKEN_CLASSIFICATION: [[0, 2, 1], [1], [2], [0, 1, 1]],
    QUESTION_ANSWERING: [[2, 4], [0, 0], [1, 1], [3, 5]],
}
OUTPUTS = {TOKEN_CLASSIFICATION: 3, QUESTION_ANSWERING: 2}
SHARED = ["bitfit", "layernorm", "top", "lora-II"]


def pretrained(directory, head):
    """With noise in every parameter, so that none is 0 or 1, in float64."""
    model = load_model(directory, head, OUTPUTS[head])
    generator = torch.Generator().manual_seed(0)
    noisy = {
        name: value.double() + 0.05 * torch.randn(value.shape, generator=generator).double()
        for name, value in model.parameters.items()
    }
    return replace(model, parameters=noisy)


def loss_of_tokens(logits, batch):
    """Each run's mean over the tokens that are read."""
    log_p = logits.log_softmax(2)
    return -log_p[:, torch.arange(len(batch.labels)), batch.labels].mean(1)


def loss_of_spans(logits, batch):
    """Each run's mean over examples and over start and end."""
    losses = []
    for number, label in enumerate(batch.labels):
        log_p = logits[:, batch.read_of == number].log_softmax(1)
        losses.append(-(log_p[:, label[0], 0] + log_p[:, label[1], 1]) / 2)
    return torch.stack(losses).mean(0)


LOSSES = {TOKEN_CLASSIFICATION: loss_of_tokens, QUESTION_ANSWERING: loss_of_spans}


def own_parameters(model, weights, run):
    """What one run's model is, as a function of the values that train."""
    parameters = dict(model.parameters)
    for name, weight in weights.items():
        match weight:
            case PerRun(values):
                parameters[name] = values[run]
            case LowRankUpdate(lora_a, lora_b):
                parameters[name] = parameters[name] + lora_b[run] @ lora_a[run]
            case SparseEntries(matrix, values, rows, columns):
                parameters[name] = matrix.index_put((rows, columns), values)
            case _:
                parameters[name] = weight
    return parameters


def transformers_loss(model, parameters):
    """The loss that transformers' own model says, of all examples."""
    theirs = reference.empty(model.config, parameters, model.head)
    exported = {model.exported_name(name): value for name, value in parameters.items()}
    total = torch.zeros((), dtype=torch.float64)
    for example, row in enumerate(ROWS):
        label = LABELS[model.head][example]
        if model.head == QUESTION_ANSWERING:
            labels = {
                "start_positions": torch.tensor(label[:1]),
                "end_positions": torch.tensor(label[1:]),
            }
            weight = 1 / len(ROWS)
        else:
            ignored = torch.full((1, len(row)), -100)
            ignored[0, READS[model.head][example]] = torch.tensor(label)
            labels = {"labels": ignored}
            weight = len(label) / sum(map(len, LABELS[model.head]))
        kwargs = {"input_ids": torch.tensor([row]), **labels}
        total = total + weight * torch.func.functional_call(theirs, exported, kwargs=kwargs).loss
    return total


@pytest.mark.parametrize(
    ("kind", "runs"),
    [(kind, runs) for kind in SHARED for runs in (1, 3)]
    + [(kind, 1) for kind in ("full", "random", "rand_row_col")],
)
@pytest.mark.parametrize("head", [TOKEN_CLASSIFICATION, QUESTION_ANSWERING])
@pytest.mark.parametrize("directory", ["tiny_bert", "tiny_roberta"])
def test_losses_and_gradients_are_those_of_transformers(directory, head, kind, runs, request):
    model = pretrained(request.getfixturevalue(directory), head)
    entries = examples.entries_of(kind, model)
    stacked, matrices = StackedParameters(model, [entries] * runs, seed=3), Matrices(model, entries)
    generator = torch.Generator().manual_seed(1)
    for values in stacked.values:
        # Each run somewhere else.
        noise = torch.randn(values.shape, generator=generator, dtype=values.dtype)
        values.data.add_(noise, alpha=0.1)
    batch = pack(examples.packable(ROWS, LABELS[head], reads=READS[head]), np.arange(4), model)
    weights = stacked.weights() | matrices.weights()
    losses = LOSSES[head](logits(model, batch, weights), batch)
    for run, values in enumerate(stacked.values):
        leaves = [values, *matrices.leaves]
        expected = transformers_loss(model, own_parameters(model, weights, run))
        torch.testing.assert_close(losses[run], expected, rtol=0, atol=TOLERANCE)
        ours = torch.autograd.grad(losses[run], leaves, retain_graph=True)
        theirs = torch.autograd.grad(expected, leaves, retain_graph=True)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)
        assert all(gradient.any() for gradient in theirs)
