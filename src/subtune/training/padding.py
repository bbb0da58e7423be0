"""A check whether padding changes a model's results."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import sort_by_length
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import Packed, logits
from subtune.models.packing import pack
from subtune.tasks.examples import Examples
from subtune.training.precision import autocast

# The smallest effect of padding that counts, relative to the largest logit: a hundred times
# float32's rounding.
TOLERANCE = 1e-4
# The number of examples that are computed with and without padding.
EXAMPLES = 8


def checked_for_padding(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, Packed], Tensor] = logits,
) -> Encoder:
    """Return the model, marked if padding changes its results.

    Eight examples of different lengths are computed twice: one by one, and in one batch that is
    padded to the longest example of all splits.
    """
    every = [split for split in splits if len(split)]
    if model.transformers is None or not every:
        return model
    first, longest = every[0], max(int(split.lengths.max()) for split in every)
    in_order = sort_by_length(np.arange(len(first)), first.lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, EXAMPLES).astype(int)])
    with_classifier = with_new_classifier(model, seed=0)
    # Low-precision products differ by more than padding changes.
    with torch.inference_mode(), autocast(model.device, "fp32"):
        padded = compute(with_classifier, replace(pack(first, index, model), longest=longest))
        texts = (pack(first, one, model) for one in index[:, None])
        alone = torch.cat([compute(with_classifier, text) for text in texts], dim=-2)
    # If the head reads no token of these texts, there is nothing to compare.
    if not alone.numel() or (padded - alone).abs().max() <= TOLERANCE * alone.abs().max():
        return model
    return replace(model, transformers=replace(model.transformers, sees_padding=True))
