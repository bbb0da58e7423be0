"""BERT (Devlin et al., 2019)."""

from subtune.models.families.base import Components, Dimensions, Embeddings, Family


def _parameters(d: Dimensions) -> int:
    h, i = d.hidden_size, d.intermediate_size
    rows = d.vocab_size + d.max_position_embeddings + d.type_vocab_size
    layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
    return rows * h + 2 * h + d.num_hidden_layers * layer + h * h + h


def _forward_flops(d: Dimensions, tokens: float) -> float:
    """As in `subtune.models.forward` the last layer computes the first token, keys and values."""
    h, i = d.hidden_size, d.intermediate_size
    linear, keys_and_values = 2 * (4 * h * h + 2 * h * i), 2 * 2 * h * h
    attention = 2 * 2 * tokens * h
    full = (d.num_hidden_layers - 1) * tokens * (linear + attention)
    return full + tokens * keys_and_values + linear - keys_and_values + attention + 2 * h * h


BERT = Family(
    model_type="bert",
    layers="encoder.layer.",
    components=Components(
        query="attention.self.query",
        key="attention.self.key",
        value="attention.self.value",
        attention_output="attention.output.dense",
        attention_norm="attention.output.LayerNorm",
        intermediate="intermediate.dense",
        output="output.dense",
        output_norm="output.LayerNorm",
    ),
    embeddings=Embeddings(
        word="embeddings.word_embeddings",
        position="embeddings.position_embeddings",
        token_type="embeddings.token_type_embeddings",
        norm="embeddings.LayerNorm",
    ),
    pooler="pooler.dense",
    first_position=lambda padding: 0,
    defaults={
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "pad_token_id": 0,
    },
    backbone="bert",
    classifier="classifier",
    renamed={"classifier.": "classifier."},
    parameters=_parameters,
    forward_flops=_forward_flops,
)
