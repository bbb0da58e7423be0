"""Exports in the layout of sentence-transformers: an encoder, its pooling, and a linear layer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModel

from subtune.tasks.examples import Reads

# The tokens of an embedding, and the field of a pooling's configuration that names them.
MODES: dict[Reads, str] = {
    "first": "pooling_mode_cls_token",
    "all": "pooling_mode_mean_tokens",
    "last": "pooling_mode_lasttoken",
}
# The folder of a linear layer on the features of a pair. No part of sentence-transformers joins two
# texts, so the card's code applies it.
REGRESSION = "regression"


def write_encoder(draft: Path, pretrained: Path, values: Mapping[str, Tensor]) -> None:
    """Write an encoder without a head.

    Args:
        draft: the folder.
        pretrained: the directory of the pretrained model.
        values: its tensors that training has changed, and perhaps others.
    """
    encoder = AutoModel.from_pretrained(pretrained, local_files_only=True).float()
    encoder.load_state_dict(values, strict=False)
    encoder.save_pretrained(draft)


def write_parts(
    draft: Path, max_length: int, read: Reads, weight: Tensor, bias: Tensor, embeddings: int = 0
) -> None:
    """Write the parts around an encoder.

    Args:
        draft: the folder of the encoder.
        max_length: most tokens of a text.
        read: the tokens whose mean is an embedding.
        weight: ``[o, f]`` of the linear layer.
        bias: ``[o]``.
        embeddings: how many normalised ones the layer reads; 0 if it reads one as it is.
    """
    outputs, features = weight.shape
    width = features // 4 if embeddings > 1 else features
    modes = {field: tokens == read for tokens, field in MODES.items()}
    parts: dict[str, dict[str, Any]] = {
        "Transformer": {},
        "Pooling": {"word_embedding_dimension": width, **modes},
        **({"Normalize": {}} if embeddings else {}),
        "Dense": {"in_features": features, "out_features": outputs, "bias": True}
        | {"activation_function": "torch.nn.modules.linear.Identity"},
    }
    paths = {part: f"{number}_{part}" if number else "" for number, part in enumerate(parts)}
    if embeddings > 1:
        paths["Dense"] = REGRESSION
    modules = [
        {"idx": number, "name": str(number), "path": path}
        | {"type": f"sentence_transformers.models.{part}"}
        for number, (part, path) in enumerate(paths.items())
        if path != REGRESSION
    ]
    length = {"max_seq_length": max_length, "do_lower_case": False}
    written: dict[str, Any] = {"modules.json": modules, "sentence_bert_config.json": length}
    written |= {f"{paths[part]}/config.json": parts[part] for part in paths if paths[part]}
    for name, content in written.items():
        (draft / name).parent.mkdir(exist_ok=True)
        (draft / name).write_text(json.dumps(content, indent=2) + "\n")
    tensors = {"linear.weight": weight.contiguous(), "linear.bias": bias.contiguous()}
    save_file(tensors, draft / paths["Dense"] / "model.safetensors")
