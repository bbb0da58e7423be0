"""Tiny models that a test may change."""

import pytest
from transformers import AutoModelForSequenceClassification

from subtune.models.model_files import WEIGHTS, list_weight_files


@pytest.fixture
def directory(copied):
    """A copy of the tiny BERT."""
    return copied()


@pytest.fixture
def in_shards(copied):
    """A function from a family to its tiny model, with weights in several files."""

    def write(family):
        directory = copied(family)
        whole = AutoModelForSequenceClassification.from_pretrained(directory)
        (directory / WEIGHTS).unlink()
        whole.save_pretrained(directory, max_shard_size="20KB")
        assert len(list_weight_files(directory)) > 1
        return directory

    return write
