"""Folders that users take for a model's, and what the message says of each."""

import json

import pytest

from subtune.models.model_config import read_model_config
from tests.helpers.messages import refused

BASE = {"base_model_name_or_path": "someone/base"}
MODULES = [{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"adapter_config.json": BASE},
            "PEFT adapter, not a whole model; use its base model (someone/base), or",
        ),
        (
            {"refs/main": "abc", "snapshots/abc/config.json": {"model_type": "bert"}},
            "; use a model folder inside it: HERE/snapshots/abc",
        ),
        (
            {"modules.json": MODULES, "0_Transformer/config.json": {"model_type": "bert"}},
            "; use a model folder inside it: HERE/0_Transformer",
        ),
        (
            {f"checkpoint-{n}/config.json": {"model_type": "bert"} for n in (10, 20)},
            "in 'HERE'; use a model folder inside it: HERE/checkpoint-20 (and 1 more)",
        ),
        ({"runs/1234/spec.json": {}}, "; these are subtune's results; `subtune export RUN"),
        ({"model.gguf": ""}, "; use a folder written by transformers' `save_pretrained`"),
    ],
    ids=["adapter", "cache", "old", "checkpoints", "results", "other"],
)
def test_a_folder_without_a_model_is_named_for_what_it_is(files, found, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    with refused("", found.replace("HERE", str(tmp_path))):
        read_model_config(tmp_path)
