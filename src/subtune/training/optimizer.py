"""AdamW, and the learning rate of each step."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from subtune.runs.spec import Recipe


class AdamW:
    """AdamW in torch's fused kernel, with one learning rate for each step.

    `torch.optim.AdamW` does the same, but it imports torch's compiler, which takes a second per
    job.
    """

    def __init__(self, leaves: Sequence[Tensor], weight_decay: float):
        self.leaves = leaves
        self._weight_decay = weight_decay
        self.betas = 0.9, 0.999
        self._means = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._squares = [torch.zeros_like(leaf, requires_grad=False) for leaf in leaves]
        self._steps = [torch.zeros((), device=leaf.device) for leaf in leaves]

    @torch.no_grad()
    def step(
        self,
        gradients: Sequence[Tensor | None],
        learning_rate: float | Tensor,
        max_grad_norm: float,
    ) -> None:
        """Clip the gradients, and update the leaves that have one."""
        every = zip(self.leaves, gradients, self._means, self._squares, self._steps, strict=True)
        own = [(leaf, gradient, *rest) for leaf, gradient, *rest in every if gradient is not None]
        if not own:
            return
        leaves, kept, means, squares, steps = map(list, zip(*own, strict=True))
        norm = nn.utils.get_total_norm(kept)
        torch._foreach_mul_(kept, (max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        beta1, beta2 = self.betas
        adamw(
            leaves,
            kept,
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            eps=1e-8,
            weight_decay=self._weight_decay,
        )

    def state(self) -> list[Tensor]:
        """Return the leaves and their averages, for `restore`."""
        return [*self.leaves, *self._means, *self._squares, *self._steps]

    @torch.no_grad()
    def restore(self, state: Sequence[Tensor]) -> None:
        """Continue from a saved state, which `state` returned."""
        for tensor, saved in zip(self.state(), state, strict=True):
            tensor.copy_(saved)


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate of a step, which counts from 0.

    The rate rises linearly during the warm-up, then stays constant or falls linearly to 0.
    """
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)
