"""Models that are copied into the results, and their tokenizers."""

import pytest
import torch
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError
from subtune.models import files
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.files import fetch_model
from subtune.models.tokenizer import TOKENIZER
from subtune.runs.spec import ModelSpec


@pytest.fixture
def fetched(tmp_path):
    """A function that copies a local model as it was planned; after planning, ``edit`` is called"""

    def fetch_copy(directory, edit=lambda: None):
        spec = ModelSpec(source="files", version=files.model_version(directory))
        edit()
        fetch_model(spec, str(directory), tmp_path / "copy")
        return tmp_path / "copy"

    return fetch_copy


def test_a_local_model_is_copied_with_its_card(directory, fetched):
    card = "---\nlicense: mit\n---\n"
    (directory / "README.md").write_text(card)
    copy = fetched(directory)
    assert files.model_version(copy) == files.model_version(directory)
    assert (copy / "README.md").read_text() == card


def test_a_local_model_that_was_edited_after_planning_is_refused(directory, fetched):
    path = directory / "config.json"
    edited = path.read_text().replace("{", '{"note": "edited", ', 1)
    with pytest.raises(SubtuneError, match=r"mine: changed since this was planned; call snakemake"):
        fetched(directory, lambda: path.write_text(edited))


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_weights_in_several_files_are_copied(family, directory_of, in_shards, fetched):
    whole, in_parts = (
        load_encoder(of, SEQUENCE_CLASSIFICATION, 2).parameters
        for of in (directory_of(family), fetched(in_shards(family)))
    )
    assert all(torch.equal(value, in_parts[name]) for name, value in whole.items())


def test_a_tokenizer_is_made_of_a_vocabulary(directory, fetched):
    """Older models have a vocabulary, and no file for the whole tokenizer."""
    whole = Tokenizer.from_file(str(directory / TOKENIZER))
    (directory / TOKENIZER).unlink()
    words = sorted(whole.get_vocab(), key=whole.token_to_id)
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    made = Tokenizer.from_file(str(fetched(directory) / TOKENIZER))
    for pair in (("a good film",), ("The dog sleeps.", "he sings")):
        assert made.encode(*pair).ids == whole.encode(*pair).ids
