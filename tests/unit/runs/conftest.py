"""Tiny models of all families."""

import pytest


@pytest.fixture(scope="session")
def model_of(tiny_bert, tiny_roberta, directory_of):
    """A function from the name of a family to the directory of a tiny model of it."""
    packed = {"bert": tiny_bert, "roberta": tiny_roberta}
    return lambda family: packed[family] if family in packed else directory_of(family)
