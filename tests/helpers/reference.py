"""The reference for tests: transformers on padded batches, one run at a time."""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
)

from subtune.models import forward
from subtune.models.encoder import Encoder
from subtune.models.families import (
    FAMILIES,
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.operations import DropoutMasks, PerRun
from subtune.models.packing import PackedBatch

CLASSES = {
    SEQUENCE_CLASSIFICATION: AutoModelForSequenceClassification,
    MEAN_CLASSIFICATION: AutoModelForTokenClassification,
    TOKEN_CLASSIFICATION: AutoModelForTokenClassification,
    QUESTION_ANSWERING: AutoModelForQuestionAnswering,
}


def logits(
    config: PretrainedConfig,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, list],
    mask: Callable[[Sequence[int], float], Tensor] | None = None,
    head: str = SEQUENCE_CLASSIFICATION,
) -> Tensor:
    """Compute logits with transformers, differentiable in ``parameters``.

    Args:
        mask: returns dropout factors for a shape and a probability; None means no dropout.

    Returns:
        ``[examples, outputs]``, or ``[examples, longest, outputs]`` with padding for token heads.
    """
    model = empty(config, parameters, head)
    family = FAMILIES[config.model_type]
    for module in model.modules():
        if mask is not None and isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda of, _, x: x * mask(x.shape, of.p))
    theirs = {family.exported_name(name, head): value for name, value in parameters.items()}
    outputs = torch.func.functional_call(model, theirs, kwargs=padded(inputs))
    if head == QUESTION_ANSWERING:
        return torch.stack([outputs.start_logits, outputs.end_logits], -1)
    if head == MEAN_CLASSIFICATION:
        lengths = map(len, inputs["input_ids"])
        return torch.stack([of[:n].mean(0) for of, n in zip(outputs.logits, lengths, strict=True)])
    return outputs.logits


def empty(config: PretrainedConfig, parameters: Mapping[str, Tensor], head: str) -> nn.Module:
    """Build a transformers model without weights, in evaluation mode.

    The shape of the head in ``parameters`` gives the number of outputs.
    """
    config = copy.deepcopy(config)
    family = FAMILIES[config.model_type]
    config.num_labels = len(parameters[f"{family.heads[head][-1].module}.bias"])
    with torch.device("meta"):
        model = CLASSES[head].from_config(config, attn_implementation="eager")
    model = model.eval().to_empty(device="cpu")
    for name, buffer in CLASSES[head].from_config(config).named_buffers():
        model.get_buffer(name).copy_(buffer)
    return model


def padded(inputs: Mapping[str, list]) -> dict[str, Tensor]:
    """Pad inputs of unequal length, and add the attention mask."""
    lengths = [len(row) for row in inputs["input_ids"]]
    found = {
        name: torch.tensor([[*map(int, row), *[0] * (max(lengths) - len(row))] for row in rows])
        for name, rows in inputs.items()
    }
    found["attention_mask"] = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return found


def rows_at(inputs: Mapping[str, list], index: np.ndarray) -> dict[str, list]:
    """Select examples by their indices."""
    return {name: [rows[example] for example in index] for name, rows in inputs.items()}


def slopes_with_dropout(
    model: Encoder, packed: PackedBatch, step: float = 0.05
) -> tuple[float, float]:
    """Compute the slope of a loss by its gradient and by central differences.

    All passes use the same dropout masks. The direction is random, in the value matrix of the first
    layer.
    """
    of_values = ("self.value.weight", "self.qkv.weight")
    name = next(name for name in model.parameters if name.endswith(of_values))
    matrix, generator = model.parameters[name], torch.Generator().manual_seed(0)
    direction = torch.randn(matrix.shape, generator=generator).to(matrix)
    direction *= step / direction.norm()

    def loss(weight: Tensor) -> Tensor:
        masks = DropoutMasks(7, model.device)
        computed = forward.compute_logits(model, packed, {name: PerRun(weight[None])}, masks)
        factors = torch.linspace(-1, 2, computed.numel(), device=model.device)
        return (computed.flatten() * factors).sum()

    leaf = matrix.clone().requires_grad_()
    [gradient] = torch.autograd.grad(loss(leaf), leaf)
    with torch.no_grad():
        sides = loss(matrix + direction) - loss(matrix - direction)
    return (gradient * direction).sum().item(), sides.item() / 2
