"""Attention whose dropout costs less on a CPU.

Shapes: ``n`` examples, ``t`` tokens, ``q`` query tokens, ``a`` heads, ``d`` numbers per head.
"""

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from subtune.models.dropout import dropout as cheap_dropout

NAME = "subtune"


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Softmax attention ``[n, q, a, d]`` of a query ``[n, a, q, d]`` and ``[n, a, t, d]`` keys.

    torch has no fused attention with dropout on a CPU: there this one drops by the cheaper masks.
    Everywhere else torch's own is used.
    """
    if query.is_cuda or dropout == 0.0:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=False
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.mT
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, float("-inf"))
    weights = cheap_dropout(scores.softmax(-1), dropout, training=True)
    return (weights @ value).transpose(1, 2), None


def use_own_attention(backbone: PreTrainedModel) -> None:
    """Let every layer of an encoder attend by `attention`."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    backbone.set_attn_implementation(NAME)
