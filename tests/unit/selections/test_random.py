"""Entries drawn at random: how many, of what, and by which seed."""

import math

import numpy as np
import pytest

from subtune.core.errors import SubtuneError
from subtune.selections.entries import Draw, Lines, Random
from subtune.selections.kind import Indices, count
from subtune.selections.methods import METHODS
from tests.helpers.examples import CLASSIFIER


def indices(entries):
    """Tensor name to the flat indices that train, of those that train in part."""
    return {name: entry.flat for name, entry in entries.items() if isinstance(entry, Indices)}


def test_random_is_as_many_as_layernorm_in_proportion_to_the_size_of_tensors(bert_large):
    entries = METHODS["random"].resolve(bert_large, seed=0)
    assert count(entries, bert_large) == 51_202
    drawn = indices(entries)
    words = "embeddings.word_embeddings.weight"
    total = sum(math.prod(shape) for n, shape in bert_large.items() if "classifier" not in n)
    expected = 49_152 * math.prod(bert_large[words]) / total
    assert abs(len(drawn[words]) - expected) < 5 * math.sqrt(expected)


def test_a_draw_of_a_count_holds_that_many_entries_and_depends_on_the_seed_alone(bert_large):
    def flat(seed):
        drawn = Random(random=Draw(count=1234, within=("**.bias",))).resolve(bert_large, seed)
        assert all(name.endswith(".bias") for name in drawn.keys() - set(CLASSIFIER))
        return {name: index.tolist() for name, index in indices(drawn).items()}

    assert sum(map(len, flat(1).values())) == 1234
    assert flat(1) == flat(1) != flat(2)


def test_random_lines_are_whole_columns_or_as_many_entries_of_whole_rows():
    shapes = {"tall": (6, 3), "wide": (2, 4), "classifier.weight": (2, 2)}
    lines = Random(random=Lines(lines_of=("tall", "wide")))
    kinds = set()
    for seed in range(20):
        drawn = indices(lines.resolve(shapes, seed))
        rows, columns = np.divmod(drawn["tall"], 3)
        assert len(drawn["tall"]) == 6
        kinds.add((len(set(rows)), len(set(columns))))
        assert len(set(drawn["wide"] % 4)) == 1
    assert kinds == {(6, 1), (2, 3)}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (Draw(count=16), "cannot draw 16 entries, `within` holds 15"),
        (Lines(lines_of=("bias",)), "'bias' is no matrix"),
    ],
)
def test_what_a_model_lacks_cannot_be_drawn(draw, message):
    shapes = {"weight": (3, 4), "bias": (3,), "classifier.weight": (2, 3)}
    with pytest.raises(SubtuneError, match=message):
        Random(random=draw).resolve(shapes, seed=0)
