"""The forward pass of runs side by side, by the code that computes their model."""

from collections.abc import Mapping

from torch import Tensor

from subtune.models import packed_pass
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder
from subtune.models.packed import Packed
from subtune.models.weights import Weight


def hidden_states(model: Encoder, batch: Packed) -> Tensor:
    """Return the last hidden states ``[q, h]`` of the tokens that the batch reads."""
    if model.transformers is None:
        return packed_pass.hidden_states(model, batch)
    from subtune.models import transformers_pass

    return transformers_pass.hidden_states(model, batch)


def logits(
    model: Encoder,
    batch: Packed,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
) -> Tensor:
    """Return logits ``[k, q, o]``: of every run, every token that the head reads, every output.

    Args:
        model: what all runs share.
        batch: what every run reads.
        trained: canonical name to the weight that replaces the model's own tensor.
        masks: dropout masks; without them nothing is dropped.
    """
    if model.transformers is None:
        return packed_pass.logits(model, batch, trained, masks)
    # Transformers' code takes seconds to import; packed models do not need it.
    from subtune.models import transformers_pass

    return transformers_pass.logits(model, batch, trained, masks)
