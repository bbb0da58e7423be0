"""What ours is compared to: transformers' own model on padded batches, one run at a time."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel, PretrainedConfig


def logits(
    config: PretrainedConfig, parameters: Mapping[str, Tensor], inputs: Mapping[str, list]
) -> Tensor:
    """Logits ``[examples, num_labels]`` without dropout, differentiable in ``parameters``."""
    with torch.device("meta"):
        backbone = AutoModel.from_config(config, attn_implementation="eager").eval()
    backbone = backbone.to_empty(device="cpu")
    for name, buffer in AutoModel.from_config(config).named_buffers():
        backbone.get_buffer(name).copy_(buffer)
    own = {name: v for name, v in parameters.items() if not name.startswith("classifier")}
    pooled = torch.func.functional_call(backbone, own, kwargs=padded(inputs)).pooler_output
    return pooled @ parameters["classifier.weight"].T + parameters["classifier.bias"]


def padded(inputs: Mapping[str, list]) -> dict[str, Tensor]:
    """Rows of unequal length as a model's inputs, with their attention mask."""
    lengths = [len(row) for row in inputs["input_ids"]]
    found = {
        name: torch.tensor([[*map(int, row), *[0] * (max(lengths) - len(row))] for row in rows])
        for name, rows in inputs.items()
    }
    found["attention_mask"] = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return found


def rows_at(inputs: Mapping[str, list], index: np.ndarray) -> dict[str, list]:
    """Some of a split's rows."""
    return {name: [rows[example] for example in index] for name, rows in inputs.items()}
