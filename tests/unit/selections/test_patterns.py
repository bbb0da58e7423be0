"""Patterns of parameter names."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.selections.patterns import WholeTensors, matching


def test_a_star_does_not_cross_a_dot(bert_large):
    pattern = "encoder.layer.*.output.LayerNorm.bias"
    assert len(matching([pattern], bert_large)) == 24
    assert len(matching(["encoder.**.output.LayerNorm.bias"], bert_large)) == 48
    assert not any(name.startswith("classifier") for name in matching(["**"], bert_large))


def test_a_range_of_layers_includes_both_ends_and_may_be_open(bert_large):
    def layers(part):
        return {int(n.split(".")[2]) for n in matching([f"encoder.layer.{part}.**"], bert_large)}

    assert layers("4-8") == {4, 5, 6, 7, 8}
    assert layers("20-") == {20, 21, 22, 23}
    assert layers("7") == {7}


def test_a_pattern_that_matches_nothing_is_an_error(bert_large):
    with pytest.raises(SubtuneError, match=r"'encoder\.layers\.\*' matches no parameter"):
        WholeTensors(parameters=("encoder.layers.*",)).resolve(bert_large, seed=0)
