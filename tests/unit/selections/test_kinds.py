"""Kinds of selection, and how a mapping is recognised as one of them."""

import pytest

from subtune.selections import SELECTION
from subtune.selections.entries import Ranked, Top
from subtune.selections.kind import Whole, Work
from subtune.selections.methods import METHODS
from tests.helpers.examples import CLASSIFIER

KINDS = {
    "whole": (
        '{"parameters":["pooler.**"],"without":["**.bias"]}',
        Work.MATRICES,
        "pooler.** without **.bias",
    ),
    "everything": ('{"parameters":["**"]}', Work.MATRICES, "every parameter"),
    "nothing": ('{"parameters":["**"],"without":["**"]}', Work.NOTHING, "nothing"),
    "embeddings": (
        '{"embeddings":{}}',
        Work.NOTHING,
        "nothing: logistic or ridge regression on frozen embeddings",
    ),
    "draw": (
        '{"random":{"count":5,"within":["**.bias"]}}',
        Work.ENTRIES,
        "random entries of **.bias: 5",
    ),
    "lines": (
        '{"random":{"lines_of":["pooler.dense.weight"],"whole":["pooler.dense.bias"]}}',
        Work.ENTRIES,
        "random rows or columns of pooler.dense.weight; pooler.dense.bias",
    ),
    "lora": (
        '{"lora":{"alpha":8.0,"rank":4,"targets":["pooler.dense.weight"]},'
        '"parameters":["pooler.dense.bias"]}',
        Work.LOW_RANK,
        "LoRA (rank 4, alpha 8) on pooler.dense.weight; pooler.dense.bias",
    ),
}
TOP = Top(top=Ranked(ranking="r", fraction=0.25))


@pytest.mark.parametrize(("canonical", "work", "words"), KINDS.values(), ids=KINDS)
def test_a_kind_is_known_by_its_keys_and_says_what_it_trains(canonical, work, words, bert_large):
    selection = SELECTION.validate_json(canonical)
    assert selection.canonical() == canonical
    assert selection.work() is work
    assert selection.in_words() == words
    entries = selection.resolve(bert_large, seed=0)
    assert all(entries[name] == Whole() for name in CLASSIFIER)
    assert (entries.keys() > set(CLASSIFIER)) == (not words.startswith("nothing"))
    assert selection.ranking is None


def test_a_top_fraction_costs_what_its_ranking_ranks():
    assert SELECTION.validate_json(TOP.canonical()) == TOP
    assert TOP.canonical() == '{"top":{"fraction":0.25,"ranking":"r"}}'
    assert TOP.ranking == "r"
    assert TOP.in_words() == "top 0.25 of ranking r"
    assert TOP.work(METHODS["layernorm"]) is Work.VECTORS
    assert TOP.work(METHODS["full"]) is Work.MATRICES
