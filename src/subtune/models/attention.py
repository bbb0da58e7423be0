"""Attention and the last layer, at the price of what a pooled first token needs.

Shapes: ``n`` examples, ``t`` tokens, ``q`` query tokens, ``a`` heads, ``d`` numbers per head,
``h`` hidden size.
"""

from functools import partial

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer

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


def pool_first_token_only(backbone: PreTrainedModel) -> None:
    """Let the last layer compute the first token alone, which is all that the pooler reads.

    Its keys and values still come from every token. Of a layer's matrix products a sixth is left.
    """
    layer = backbone.encoder.layer[-1]
    layer.forward = partial(_first_token, layer)


def _first_token(
    layer: BertLayer | RobertaLayer,
    hidden: Tensor,
    attention_mask: Tensor | None = None,
    *args: object,
    **kwargs: object,
) -> Tensor:
    """The layer's output ``[n, 1, h]`` at the first token of ``hidden`` ``[n, t, h]``."""
    inner = layer.attention.self
    heads = (len(hidden), -1, inner.num_attention_heads, inner.attention_head_size)
    first = hidden[:, :1]
    attended, _ = attention(
        inner,
        inner.query(first).view(heads).transpose(1, 2),
        inner.key(hidden).view(heads).transpose(1, 2),
        inner.value(hidden).view(heads).transpose(1, 2),
        None if attention_mask is None else attention_mask[:, :, :1],
        dropout=inner.dropout.p if layer.training else 0.0,
        scaling=inner.scaling,
    )
    after_attention = layer.attention.output(attended.flatten(2), first)
    return layer.output(layer.intermediate(after_attention), after_attention)
