"""A small model and its examples for tests of training."""

import pytest

from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.tasks import TASKS
from tests.helpers import examples


@pytest.fixture
def model(tiny_bert):
    """A tiny BERT for SST-2, without dropout."""
    return load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, TASKS["sst2"].outputs)


@pytest.fixture
def directory(family, directory_of):
    """A tiny model of the test's ``family``."""
    return directory_of(family)


@pytest.fixture(scope="package")
def tokens(tiny_bert):
    return examples.tokens(TASKS["sst2"], tiny_bert)


@pytest.fixture(scope="package")
def rows(tokens):
    return examples.examples_of(TASKS["sst2"], tokens)
