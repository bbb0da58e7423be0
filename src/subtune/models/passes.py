"""A forward pass of runs side by side, by the code that a model has."""

from collections.abc import Mapping

from torch import Tensor

from subtune.models import forward
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder
from subtune.models.packed import Packed
from subtune.models.weights import Weight


def logits(
    model: Encoder,
    batch: Packed,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
) -> Tensor:
    """Logits ``[k, q, o]`` of every run.

    Args:
        model: what all runs share.
        batch: what every run reads.
        trained: canonical name to what runs have in the place of the model's own tensor.
        masks: dropout masks; without them nothing is dropped.
    """
    if model.skeleton is None:
        return forward.logits(model, batch, trained, masks)
    # Transformers' code takes seconds to import, and packed models do without.
    from subtune.models import folded

    return folded.logits(model, batch, trained, masks)
