"""The memory that a training step takes, estimated and counted."""

import numpy as np
import pytest
import torch
from benchmarks.memory import peak_bytes
from transformers import BertConfig

from subtune.families.base import (
    HEADS,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models import encoder
from subtune.models.dimensions import dimensions_by
from subtune.models.encoder import Encoder
from subtune.models.packed import pack
from subtune.selections.methods import named
from subtune.training.activations import step_bytes
from tests.helpers import examples


@pytest.fixture(scope="module", params=HEADS)
def wide(request):
    """A BERT with dropout, wide enough that activations are what takes memory."""
    config = BertConfig(
        vocab_size=50,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
    )
    shapes = dimensions_by(config.to_dict()).shapes(2, request.param)
    parameters = {name: torch.randn(shape) * 0.02 for name, shape in shapes.items()}
    return Encoder(config, parameters, request.param)


def batch_of(lengths, model):
    words = [list(range(1, length, 2)) for length in lengths]
    reads = {
        SEQUENCE_CLASSIFICATION: None,
        TOKEN_CLASSIFICATION: words,
        QUESTION_ANSWERING: "all",
    }[model.head]
    labels = words if model.head == TOKEN_CLASSIFICATION else [0] * len(lengths)
    ids = [[7] * length for length in lengths]
    return pack(examples.packable(ids, labels, reads=reads), np.arange(len(lengths)), model)


@pytest.mark.parametrize("lengths", [[11] * 16, [128] * 16, [20, 128, 60, 70]])
@pytest.mark.parametrize("method", ["bitfit", "layernorm", "b_m2", "lora-II", "SPAFIT-0-1-II"])
def test_the_memory_of_a_step_is_estimated_within_a_fifth(method, lengths, wide):
    entries = named(method, {}).resolve(encoder.shapes_of(wide), seed=0)
    batch = batch_of(lengths, wide)
    run, once = step_bytes(wide, entries, sum(lengths), [grid.size for grid in batch.grids])
    assert 3 * run + once == pytest.approx(peak_bytes(wide, entries, 3, batch), rel=0.2)


@pytest.mark.parametrize("lengths", [[11] * 16, [128] * 16])
@pytest.mark.parametrize("method", ["full", "rand_row_col", "rand_5k", "rand_300k"])
def test_the_memory_of_a_step_that_trains_matrices_is_too(method, lengths, wide):
    entries = named(method, {}).resolve(encoder.shapes_of(wide), seed=0)
    batch = batch_of(lengths, wide)
    run, once = step_bytes(wide, entries, sum(lengths), [grid.size for grid in batch.grids])
    assert run + once == pytest.approx(peak_bytes(wide, entries, 1, batch), rel=0.2)
