"""A low-rank update of a linear layer's matrix (LoRA; Hu et al., 2022).

Shapes: ``o`` outputs, ``i`` inputs, ``r`` rank.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from subtune.selection import LowRankUpdate
from subtune.training.delta import DOWN_SUFFIX, SCALE_SUFFIX, UP_SUFFIX, Delta, update
from subtune.training.part import Part


class LowRankPart(Part):
    """``scale · B A`` beside a frozen matrix: ``A [r, i]`` and ``B [o, r]`` are the leaves.

    As in LoRA's own code ``A`` is drawn as a linear layer's weights are, and ``B`` is 0, so that
    training starts at the pretrained model. In training the layer adds ``scale · x Aᵀ Bᵀ``; for
    evaluation the update is added to the matrix, which is what a delta gives back.
    """

    def __init__(
        self,
        name: str,
        tensor: nn.Parameter,
        entry: LowRankUpdate,
        owner: nn.Module,
        generator: torch.Generator,
    ):
        outputs, inputs = tensor.shape
        super().__init__(name, tensor)
        self.scale = entry.scale
        down = torch.empty(entry.rank, inputs)
        nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
        self.down = nn.Parameter(down.to(tensor.device))
        self.up = nn.Parameter(torch.zeros(outputs, entry.rank, device=tensor.device))
        self.leaves = [self.down, self.up]
        self._hook = owner.register_forward_hook(self._add)

    def merge(self) -> None:
        self.tensor.data.add_(self.change())

    def split(self) -> None:
        self.tensor.data.copy_(self.pretrained)

    def change(self) -> Tensor:
        return update(self.down.detach(), self.up.detach(), self.scale)

    def delta(self) -> Delta:
        return {
            self.name + DOWN_SUFFIX: self.down.detach().cpu().clone(),
            self.name + UP_SUFFIX: self.up.detach().cpu().clone(),
            self.name + SCALE_SUFFIX: torch.tensor([self.scale]),
        }

    def release(self) -> None:
        self._hook.remove()
        super().release()

    def _add(self, module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            # Evaluation reads the merged matrix.
            return output
        return output + self.scale * functional.linear(
            functional.linear(inputs[0], self.down), self.up
        )
