"""The trainable entries of one run, bound to the shared model."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from subtune.models.encoder import EncoderClassifier, canonical_name, canonical_parameters
from subtune.selection import Entries, LowRankUpdate
from subtune.training.chosen import Chosen, ask_for_gradient
from subtune.training.low_rank import LowRankPart
from subtune.training.part import Part
from subtune.training.whole import Whole


@contextmanager
def bound(model: EncoderClassifier, entries: Entries, seed: int) -> Iterator[list[Part]]:
    """Make exactly ``entries`` trainable, and undo it, values included, at the end.

    ``seed`` draws what a low-rank update starts from.
    """
    parameters = canonical_parameters(model)
    owners = _owners(model)
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters.values():
        parameter.requires_grad_(False)
    with ExitStack() as undo:
        if any(isinstance(e, np.ndarray) and parameters[n].ndim > 1 for n, e in entries.items()):
            # A linear layer's output has a gradient only where something below it asks for one.
            embeddings = model.backbone.get_input_embeddings()
            undo.callback(embeddings.register_forward_hook(ask_for_gradient).remove)
        parts: list[Part] = []
        for name, index in entries.items():
            tensor = parameters[name]
            if index is None:
                part: Part = Whole(name, tensor)
            elif isinstance(index, LowRankUpdate):
                part = LowRankPart(name, tensor, index, owners[name], generator)
            else:
                part = Chosen(name, tensor, index, owners[name])
            undo.callback(part.release)
            parts.append(part)
        yield parts


@contextmanager
def merged(parts: Sequence[Part]) -> Iterator[None]:
    """Let the model's own tensors hold what is trained, for an evaluation."""
    for part in parts:
        part.merge()
    try:
        yield
    finally:
        for part in parts:
            part.split()


def _owners(model: EncoderClassifier) -> dict[str, nn.Module]:
    return {
        canonical_name(f"{path}.{leaf}"): module
        for path, module in model.named_modules()
        for leaf, _ in module.named_parameters(recurse=False)
    }
