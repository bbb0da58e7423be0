"""Some entries of a tensor: no other is ever written, so that all others stay bit-identical.

Shapes: ``n`` examples, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``k`` chosen entries.
"""

import numpy as np
import torch
from torch import Tensor, nn

from subtune.training.delta import INDEX_SUFFIX, Delta
from subtune.training.part import Part


class Chosen(Part):
    """``k`` entries of a tensor, and ``values``, the leaf that the optimiser steps for them."""

    def __init__(self, name: str, tensor: nn.Parameter, index: np.ndarray, owner: nn.Module):
        super().__init__(name, tensor)
        self.index = torch.from_numpy(index).to(tensor.device)
        self.values = nn.Parameter(tensor.detach().flatten()[self.index].clone())
        self.leaves = [self.values]
        self._hook = None
        if tensor.ndim > 1:
            self._hook = owner.register_forward_hook(self._gather_gradient)
        else:
            tensor.requires_grad_(True)

    def collect_gradient(self) -> None:
        # A matrix gathers its gradient in a hook.
        if self.tensor.grad is not None:
            self.values.grad = self.tensor.grad.flatten()[self.index]
            self.tensor.grad = None

    def write(self) -> None:
        self.tensor.data.view(-1)[self.index] = self.values.detach()

    def delta(self) -> Delta:
        return {
            self.name: self.values.detach().cpu().clone(),
            self.name + INDEX_SUFFIX: self.index.cpu(),
        }

    def release(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        super().release()

    def _gather_gradient(self, module: nn.Module, inputs: tuple, output: Tensor) -> None:
        """Add the chosen entries' gradient without the whole matrix's, on the way back.

        Linear: ``W[o, i]`` has gradient Σ_t g[t, o]·x[t, i]. Embedding: ``W[row, column]`` has
        gradient Σ_t g[t, column] over the tokens whose id is ``row``.
        """
        if not torch.is_grad_enabled():
            return
        ask_for_gradient(module, inputs, output)
        x = inputs[0].detach()
        rows = torch.div(self.index, self.tensor.shape[1], rounding_mode="floor")
        columns = self.index % self.tensor.shape[1]

        def gather(gradient: Tensor) -> None:
            g = gradient.detach().flatten(0, -2).float()
            if isinstance(module, nn.Embedding):
                ids = x.expand(gradient.shape[:-1]).flatten()
                token, entry = (ids[:, None] == rows).nonzero(as_tuple=True)
                found = torch.zeros_like(self.values)
                found.index_add_(0, entry, g[token, columns[entry]])
            else:
                found = (g[:, rows] * x.flatten(0, -2)[:, columns]).sum(0)
            self.values.grad = found if self.values.grad is None else self.values.grad + found

        output.register_hook(gather)


def ask_for_gradient(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    """A forward hook that lets a gradient reach this module's output."""
    wants = torch.is_grad_enabled() and not output.requires_grad
    return output.requires_grad_(True) if wants else output
