"""Low-rank updates of matrices (LoRA, Hu et al., 2022)."""

from pydantic import Field

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.families.naming import is_embedding
from subtune.selections.kind import AbstractSelection, Entries, LowRank, Ranks, Shapes, Whole, Work
from subtune.selections.whole import Patterns, listed, matching


class LoraSettings(Value):
    """Low-rank updates of the matrices that match ``targets``, scaled by ``alpha / rank``."""

    targets: Patterns
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0)


class Lora(AbstractSelection):
    """Low-rank updates of matrices, and the whole tensors that train beside them."""

    usual_work = Work.LOW_RANK
    lora: LoraSettings
    parameters: Patterns | None = None

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        lora = self.lora
        entries: Entries = dict.fromkeys(matching(self.parameters or (), shapes), Whole())
        for name in matching(lora.targets, shapes):
            if len(shapes[name]) != 2 or is_embedding(name):
                raise SubtuneError(
                    f"selection: {name!r} is not a linear layer's matrix, as LoRA needs"
                )
            if name in entries:
                raise SubtuneError(
                    f"selection: {name!r} is both a target of LoRA and trained whole"
                )
            entries[name] = LowRank(lora.rank, lora.alpha / lora.rank)
        return entries

    def in_words(self) -> str:
        lora = self.lora
        adapted = f"LoRA (rank {lora.rank}, alpha {lora.alpha:g}) on {listed(lora.targets)}"
        return adapted + (f"; {listed(self.parameters)}" if self.parameters else "")
