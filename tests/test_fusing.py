"""Which runs train side by side, and how many."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from subtune.methods import METHODS
from subtune.models import encoder
from subtune.models.dropout import Masks
from subtune.models.encoder import Encoder
from subtune.models.forward import logits
from subtune.models.packed import pack
from subtune.selection import resolve
from subtune.tasks import TASKS
from subtune.training.bank import Bank
from subtune.training.fusing import CPU_TOKENS, activation_bytes, groups, runs_at_once
from subtune.training.recipe import Member
from tests import examples


@pytest.fixture(scope="module")
def model(tiny_bert):
    return encoder.load(tiny_bert, 2)


@pytest.fixture(scope="module")
def train_rows(tiny_bert):
    task = TASKS["sst2"]
    return examples.rows_of(task, examples.tokens(task, tiny_bert))["train"]


def member(method, model, seed=0, **recipe):
    entries = resolve(METHODS[method], encoder.shapes_of(model), seed)
    return Member(entries, examples.recipe(**recipe), seed)


def test_runs_share_a_pass_whatever_vectors_they_train_and_however_fast(model, train_rows):
    members = [
        member("layernorm", model),
        member("bitfit", model, learning_rate=1e-4),
        member("layernorm", model, schedule="constant", weight_decay=0.1, max_grad_norm=9.0),
    ]
    assert groups(model, train_rows, members) == [[0, 1, 2]]


@pytest.mark.parametrize(
    "other",
    [
        {"method": "layernorm", "seed": 1},
        {"method": "layernorm", "batch_size": 8},
        {"method": "layernorm", "epochs": 3},
        {"method": "layernorm", "train_rows": 5},
        {"method": "layernorm", "precision": "bf16"},
        {"method": "lora-I"},
        {"method": "full"},
        {"method": "rand_row_col"},
        # Alone it needs no backward pass through the encoder.
        {"method": "frozen"},
    ],
    ids=lambda other: "-".join(map(str, other.values())),
)
def test_runs_of_another_kind_do_not(other, model, train_rows):
    members = [member("layernorm", model), member(model=model, **other)] * 2
    others = [[1], [3]] if other["method"] in ("full", "rand_row_col") else [[1, 3]]
    assert groups(model, train_rows, members) == [[0, 2], *others]


def test_a_pass_holds_as_many_runs_as_it_may(model, train_rows):
    members = [member("layernorm", model)] * 7
    assert groups(model, train_rows, members, most=3) == [[0, 1, 2], [3, 4, 5], [6]]


def test_on_a_cpu_the_tokens_of_a_pass_are_bounded(model, train_rows):
    runs = runs_at_once(model, train_rows, batch_size=4)
    tokens = train_rows.lengths.mean() * 4
    assert runs * tokens <= CPU_TOKENS < (runs + 1) * tokens
    assert runs_at_once(model, train_rows, batch_size=10**6) >= 1


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A BERT with dropout, wide enough that activations are what takes memory."""
    directory = tmp_path_factory.mktemp("wide")
    config = BertConfig(
        vocab_size=50,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
    )
    BertModel(config).save_pretrained(directory)
    return encoder.load(directory, 2)


@pytest.mark.parametrize("lengths", [[11] * 16, [128] * 16, [20, 128, 60, 70]])
def test_the_memory_of_a_pass_is_estimated_within_a_quarter(lengths, wide):
    bank = Bank(wide, [member("bitfit", wide).entries] * 2, seed=0)
    rows = {"input_ids": [np.full(length, 7) for length in lengths]}
    batch = pack(rows, np.arange(len(lengths)), wide)
    weights = {value.untyped_storage().data_ptr() for value in wide.parameters.values()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor):
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        together = Encoder(wide.config, wide.parameters | bank.parameters())
        found = logits(together, batch, masks=Masks(0, wide.device))
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    one, every = activation_bytes(wide.config, sum(lengths), len(lengths), max(lengths))
    assert found.requires_grad
    assert 2 * one + every == pytest.approx(measured, rel=0.25)
