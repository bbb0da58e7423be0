"""A model's files, on their way to where jobs read them."""

import re

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models import files
from subtune.models.fetching import fetch
from subtune.models.load import load_model
from subtune.selections.specs import ModelSpec


@pytest.fixture
def directory(copied):
    return copied()


def test_a_local_model_is_copied_as_it_was_planned(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    (directory / "README.md").write_text("---\nlicense: mit\n---\n")
    fetch(spec, str(directory), tmp_path / "copy")
    assert files.version_of(tmp_path / "copy") == spec.version
    assert (tmp_path / "copy" / "README.md").read_text().startswith("---\nlicense: mit")


def test_a_local_model_that_was_edited_after_planning_is_refused(directory, tmp_path):
    spec = ModelSpec(source="files", version=files.version_of(directory))
    path = directory / "config.json"
    path.write_text(path.read_text().replace("{", '{"note": "edited", ', 1))
    with pytest.raises(SubtuneError, match=r"mine: changed since this was planned; call snakemake"):
        fetch(spec, str(directory), tmp_path / "copy")


def test_a_models_version_is_of_its_files_in_one_order(directory):
    """Another order would change the ids of all recorded runs."""
    for name in ("vocab.txt", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    names = [path.name for path in files.files_of(directory)]
    in_order = ["config.json", "model.safetensors", "tokenizer.json"]
    assert names == [*in_order, "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def in_shards(copied):
    """A function from a family to its tiny model, with weights in several files."""

    def write(family):
        directory = copied(family)
        whole = AutoModelForSequenceClassification.from_pretrained(directory)
        (directory / files.WEIGHTS).unlink()
        whole.save_pretrained(directory, max_shard_size="20KB")
        return directory

    return write


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_weights_in_several_files_are_those_in_one(family, tiny, in_shards, tmp_path):
    directory = in_shards(family)
    assert len(files.weights_of(directory)) > 1
    spec = ModelSpec(source="files", version=files.version_of(directory))
    fetch(spec, str(directory), tmp_path / "copy")
    whole, in_parts = (
        load_model(of, SEQUENCE_CLASSIFICATION, 2) for of in (tiny(family), tmp_path / "copy")
    )
    for name, value in whole.parameters.items():
        assert torch.equal(value, in_parts.parameters[name]), name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda shards, index: shards[-1].unlink(), "has no '{last}', which model.safetensors"),
        (lambda shards, index: index.write_text('{"weight_map": {"a": "../b"}}'), "has no '../b'"),
        (lambda shards, index: index.write_text("[]"), "does not say where weights are"),
    ],
)
def test_files_that_are_not_those_of_the_index_are_refused(change, problem, in_shards):
    directory = in_shards("bert")
    shards = files.weights_of(directory)
    change(shards, directory / files.INDEX)
    with pytest.raises(SubtuneError, match=re.escape(problem.format(last=shards[-1].name))):
        files.files_of(directory)


def test_a_tokenizer_is_made_of_a_vocabulary(directory, tmp_path):
    """Older models have a vocabulary, and no file for the whole tokenizer."""
    made_by_hand = Tokenizer.from_file(str(directory / files.TOKENIZER))
    (directory / files.TOKENIZER).unlink()
    words = sorted(made_by_hand.get_vocab(), key=made_by_hand.token_to_id)
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    spec = ModelSpec(source="files", version=files.version_of(directory))
    fetch(spec, str(directory), tmp_path / "copy")
    made = Tokenizer.from_file(str(tmp_path / "copy" / files.TOKENIZER))
    for pair in (("a good film",), ("The dog sleeps.", "he sings")):
        assert made.encode(*pair).ids == made_by_hand.encode(*pair).ids


def test_a_vocabulary_that_makes_no_tokenizer_is_one_line(directory, tmp_path):
    (directory / files.TOKENIZER).unlink()
    (directory / "tokenizer.model").write_bytes(b"\x00\x01")
    (directory / "config.json").write_text('{"model_type": "llama", "hidden_size": 8}')
    spec = ModelSpec(source="files", version=files.version_of(directory))
    with pytest.raises(
        SubtuneError, match=r"copy has no .*, and none can be made of tokenizer\.model"
    ):
        fetch(spec, str(directory), tmp_path / "copy")
