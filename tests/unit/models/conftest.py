"""Tiny models that a test may change."""

import json
import shutil

import pytest
import safetensors.torch
from transformers import AutoModelForSequenceClassification

from subtune.models.files import CONFIG, WEIGHTS, weights_of


@pytest.fixture
def copied(directory_of, tmp_path):
    """A function from a family to a copy of its tiny model, with other weights or fields."""

    def copy(family="bert", weights=None, **fields):
        directory = shutil.copytree(directory_of(family), tmp_path / "mine")
        if weights is not None:
            stored = safetensors.torch.load_file(directory / WEIGHTS)
            safetensors.torch.save_file(weights(stored), directory / WEIGHTS)
        path = directory / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
        return directory

    return copy


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
        assert len(weights_of(directory)) > 1
        return directory

    return write
