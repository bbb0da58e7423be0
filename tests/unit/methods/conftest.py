"""Shapes of a model for tests of selections."""

import pytest

from subtune.models.dimensions import known_dimensions


@pytest.fixture(scope="session")
def bert_large():
    """Shapes of the parameters of BERT-large-cased with two labels."""
    return known_dimensions("bert-large-cased").shapes(outputs=2)
