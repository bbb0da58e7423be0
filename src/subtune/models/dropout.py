"""Dropout masks that are cheap on a CPU, where torch's take a fifth of a training step.

Sixteen random bits decide whether a value is kept; one 64-bit draw serves four values. The
probability is exact to 1/65536.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

LANES = 4
STEPS = 1 << 16


class DropoutMasks:
    """A sequence of dropout masks, which the seed decides."""

    def __init__(self, seed: int, device: torch.device):
        self.device = device
        self._bits = np.random.SFC64(seed)
        self._generator = torch.Generator(device).manual_seed(seed)

    def draw(self, shape: Sequence[int], p: float) -> Tensor:
        """Return a mask that is 0 with probability ``p``, and 1/(1-p) elsewhere."""
        if self.device.type != "cpu":
            mask = torch.empty(shape, device=self.device)
            return mask.bernoulli_(1 - p, generator=self._generator).mul_(1 / (1 - p))
        count = math.prod(shape)
        draws = self._bits.random_raw(-(-count // LANES))
        bits = torch.from_numpy(draws.view(np.int16)[:count].reshape(shape))
        kept = bits >= round(p * STEPS) - STEPS // 2
        return kept.float().mul_(1 / (1 - p))

    def draw_seed(self) -> int:
        """Return a seed for code that draws from torch's own generator."""
        return int(self._bits.random_raw() >> 1)

    def state(self) -> tuple[dict[str, Any], Tensor]:
        """Return the position in the sequence: facts that JSON can hold, and a tensor.

        On a CPU the facts hold it, elsewhere the tensor, which only the same kind of device can
        read.
        """
        bits = self._bits.state
        plain = bits | {"state": {"state": bits["state"]["state"].tolist()}}
        return {"device": self.device.type, "masks": plain}, self._generator.get_state()

    def restore(self, facts: Mapping[str, Any], generator: Tensor) -> None:
        """Continue from a state of the same kind of device."""
        bits: Any = dict(facts["masks"])
        bits["state"] = {"state": np.array(bits["state"]["state"], np.uint64)}
        self._bits.state = bits
        self._generator.set_state(generator)
