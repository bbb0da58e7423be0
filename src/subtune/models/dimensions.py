"""A model's dimensions, and what follows from them without its weights.

Fields are named as in a model's ``config.json``.
"""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from subtune.models.files import CONFIG


class Dimensions(NamedTuple):
    """What decides a model's size and how much it computes."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int

    @property
    def parameters(self) -> int:
        """Parameters of the encoder, its pooler included."""
        h, i = self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
        return rows * h + 2 * h + self.num_hidden_layers * layer + h * h + h

    def forward_flops(self, tokens: float) -> float:
        """Floating-point operations of one example's forward pass, of so many tokens.

        A product of ``[m, k]`` and ``[k, n]`` counts ``2·m·k·n``. As in
        `subtune.models.forward` the last layer computes the first token, and keys and values.
        """
        h, i = self.hidden_size, self.intermediate_size
        linear, keys_and_values = 2 * (4 * h * h + 2 * h * i), 2 * 2 * h * h
        attention = 2 * 2 * tokens * h
        full = (self.num_hidden_layers - 1) * tokens * (linear + attention)
        return full + tokens * keys_and_values + linear - keys_and_values + attention + 2 * h * h


@cache
def papers_models() -> dict[str, dict[str, Any]]:
    """The fields of the papers' models that decide a shape, as the published ones have them."""
    path = resources.files("subtune") / "resources" / "sizes" / "models.json"
    return json.loads(path.read_text())


def dimensions_of(place: str) -> Dimensions | None:
    """Dimensions of one of the papers' models by its name on the hub, or of a local directory.

    Nothing, where they are not known before the model is downloaded.
    """
    local = Path(place) / CONFIG
    if local.is_file():
        fields = json.loads(local.read_text())
    else:
        fields = papers_models().get(place.rpartition("/")[2], {})
    if not fields:
        return None
    # transformers leaves out what equals its own default.
    defaults = papers_models()["bert-base-cased"]
    return Dimensions(**{name: fields.get(name, defaults[name]) for name in Dimensions._fields})
