"""What ours is compared to: transformers' own model on padded batches, one run at a time."""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PretrainedConfig

from subtune.models.families import family_of


def logits(
    config: PretrainedConfig,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, list],
    mask: Callable[[Sequence[int], float], Tensor] | None = None,
) -> Tensor:
    """Logits ``[examples, num_labels]``, differentiable in ``parameters``.

    ``mask``: what a dropout multiplies with, by shape and probability; without it nothing drops.
    """
    config = copy.deepcopy(config)
    family = family_of(config.model_type)
    config.num_labels = len(parameters[f"{family.head[-1].module}.bias"])
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    model = model.eval().to_empty(device="cpu")
    for name, buffer in AutoModelForSequenceClassification.from_config(config).named_buffers():
        model.get_buffer(name).copy_(buffer)
    for module in model.modules():
        if mask is not None and isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda of, _, x: x * mask(x.shape, of.p))
    theirs = {family.exported_name(name): value for name, value in parameters.items()}
    return torch.func.functional_call(model, theirs, kwargs=padded(inputs)).logits


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
