"""Low-rank updates of matrices."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.methods.added import Lora, LoraSettings
from subtune.methods.selection import LowRank, Whole, count_trained
from tests.helpers.examples import CLASSIFIER

QUERIES = "encoder.layer.*.attention.self.query.weight"


def lora(*targets, parameters=None):
    return Lora(lora=LoraSettings(targets=targets, rank=4, alpha=6), parameters=parameters)


def test_an_update_has_its_rank_and_is_scaled_by_alpha_to_rank(bert_large):
    entries = lora(QUERIES, parameters=("pooler.dense.bias",)).resolve(bert_large, seed=0)
    queries = [QUERIES.replace("*", str(layer)) for layer in range(24)]
    assert {entries[name] for name in queries} == {LowRank(4, 1.5)}
    assert entries["pooler.dense.bias"] == Whole()
    assert entries.keys() == {*queries, "pooler.dense.bias", *CLASSIFIER}
    assert count_trained(entries, bert_large) == 24 * 4 * 2048 + 1024 + 2050


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pooler.dense.bias", "is not a linear layer's matrix"),
        ("embeddings.word_embeddings.weight", "is not a linear layer's matrix"),
        ("pooler.dense.weight", "both a target of LoRA and trained whole"),
    ],
)
def test_a_target_is_a_linear_layers_matrix_that_does_not_train_whole(target, message, bert_large):
    with pytest.raises(SubtuneError, match=message):
        lora(target, parameters=("pooler.**",)).resolve(bert_large, seed=0)
