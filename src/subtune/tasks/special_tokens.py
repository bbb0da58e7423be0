"""The special tokens that a tokenizer puts around one text or two."""

from collections.abc import Sequence

from tokenizers import Tokenizer


class SpecialTokens:
    """The special tokens that a tokenizer puts around so many texts.

    ``count``: how many there are. ``before``: how many of them stand before the last text.
    """

    def __init__(self, tokenizer: Tokenizer, texts: int):
        probe = tokenizer.encode("a", "a" if texts > 1 else None)
        # Each special token, and the first token of each text: its text, id and token type.
        self._parts: list[tuple[int | None, int, int]] = []
        for part in zip(probe.sequence_ids, probe.ids, probe.type_ids, strict=True):
            if part[0] is None or part[0] not in [text for text, *_ in self._parts]:
                self._parts.append(part)
        order = [text for text, *_ in self._parts]
        self.count = order.count(None)
        self.before = order[: order.index(texts - 1)].count(None)

    def around(self, *texts: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return token ids and token types of an example, from the token ids of its texts."""
        ids: list[int] = []
        types: list[int] = []
        for text, token, token_type in self._parts:
            tokens = [token] if text is None else texts[text]
            ids += tokens
            types += [token_type] * len(tokens)
        return ids, types
