"""What tests of selections select from."""

import pytest

from subtune.models.shapes import PAPERS_MODELS, shapes_from


@pytest.fixture(scope="session")
def bert_large():
    """Shapes of the parameters of BERT-large-cased with two labels."""
    return shapes_from(PAPERS_MODELS["bert-large-cased"], num_labels=2)
