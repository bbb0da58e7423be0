"""The special tokens that a tokenizer puts around one text or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROBE = "a"


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the special tokens before, between and behind the texts, and token types of all.

    ``ids`` and ``special_types`` have one list per gap, of which there is one more than texts;
    ``text_types`` one token type per text.
    """

    ids: list[list[int]]
    special_types: list[list[int]]
    text_types: list[int]

    @property
    def count(self) -> int:
        """The number of special tokens of an example."""
        return sum(map(len, self.ids))

    def around(self, *texts: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return token ids and token types of an example, from the token ids of its texts."""
        ids, types = [*self.ids[0]], [*self.special_types[0]]
        for number, text in enumerate(texts):
            ids += [*text, *self.ids[number + 1]]
            types += [self.text_types[number]] * len(text) + self.special_types[number + 1]
        return ids, types


def of(tokenizer: Tokenizer, texts: int) -> SpecialTokens:
    """Return the special tokens that a tokenizer puts around so many texts."""
    probe = tokenizer.encode(PROBE, PROBE if texts > 1 else None)
    ids: list[list[int]] = [[]]
    special_types: list[list[int]] = [[]]
    text_types: list[int] = []
    for text, token, token_type in zip(probe.sequence_ids, probe.ids, probe.type_ids, strict=True):
        if text is None:
            ids[-1].append(token)
            special_types[-1].append(token_type)
        elif text == len(text_types):
            text_types.append(token_type)
            ids.append([])
            special_types.append([])
    return SpecialTokens(ids, special_types, text_types)
