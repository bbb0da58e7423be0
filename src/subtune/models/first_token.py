"""A last layer that computes the first token alone.

Shapes: ``n`` examples, ``t`` tokens, ``h`` hidden size.
"""

from functools import partial

from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer

from subtune.models.attention import attention


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
