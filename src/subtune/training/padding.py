"""Models whose results change when padding stands behind a text."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch

from subtune.data.batches import by_length
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.packed import Packed, pack
from subtune.tasks.examples import Examples

# Relative to the largest logit: a hundred times the rounding of float32.
TOLERANCE = 1e-4
# The number of examples to compute with padding and without.
EXAMPLES = 8


def without_padding_where_it_is_seen(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, Packed], torch.Tensor] = logits,
) -> Encoder:
    """Return the model, marked if padding changes what it computes.

    Eight examples of different lengths are computed one at a time, and in one batch that is padded
    to the longest example of all splits.
    """
    every = [split for split in splits if len(split)]
    if model.transformers is None or not every:
        return model
    longest = max(int(split.lengths.max()) for split in every)
    in_order = by_length(np.arange(len(every[0])), every[0].lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, EXAMPLES).astype(int)])
    with_classifier = with_new_classifier(model, seed=0)
    with torch.inference_mode():
        together = replace(pack(every[0], index, model), longest=longest)
        padded = compute(with_classifier, together)
        texts = (pack(every[0], one, model) for one in index[:, None])
        alone = torch.cat([compute(with_classifier, text) for text in texts], dim=-2)
    # If the head reads no token of these texts, there is nothing to compare.
    if not alone.numel() or (padded - alone).abs().max() <= TOLERANCE * alone.abs().max():
        return model
    return replace(model, transformers=replace(model.transformers, sees_padding=True))
