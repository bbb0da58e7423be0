"""The trainable entries of one run, bound to the shared model.

Whole tensors train in place. Of a tensor that trains in part, only the chosen entries are ever
written, so all others stay bit-identical to the pretrained weights whatever the optimiser does.

Shapes: ``n`` examples, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``k`` chosen entries.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from subtune.models.encoder import EncoderClassifier, canonical_name, canonical_parameters
from subtune.selection import Entries

Delta = dict[str, Tensor]
INDEX_SUFFIX = ".index"


class Trained:
    """Some entries of one tensor: ``values`` is the leaf that the optimiser steps."""

    def __init__(self, name: str, tensor: nn.Parameter, index: np.ndarray | None):
        self.name = name
        self.tensor = tensor
        self.pretrained = tensor.detach().clone()
        self.index = None if index is None else torch.from_numpy(index).to(tensor.device)
        self.values = tensor if self.index is None else nn.Parameter(self._chosen(tensor).clone())

    def _chosen(self, tensor: Tensor) -> Tensor:
        flat = tensor.detach().flatten()
        return flat if self.index is None else flat[self.index]

    def collect_gradient(self) -> None:
        """Move a vector's gradient to its chosen entries; matrices gather theirs in a hook."""
        if self.index is not None and self.tensor.grad is not None:
            self.values.grad = self._chosen(self.tensor.grad)
            self.tensor.grad = None

    def write(self) -> None:
        """Put the chosen entries' values into the model."""
        if self.index is not None:
            self.tensor.data.view(-1)[self.index] = self.values.detach()

    def restore(self) -> None:
        """Give the model its pretrained values back."""
        self.tensor.data.copy_(self.pretrained)

    def delta(self) -> Delta:
        """The entries' values now: a tensor, or ``k`` values with their ``k`` flat indices."""
        if self.index is None:
            return {self.name: self.tensor.detach().cpu().clone()}
        return {
            self.name: self.values.detach().cpu().clone(),
            self.name + INDEX_SUFFIX: self.index.cpu(),
        }


@contextmanager
def bound(model: EncoderClassifier, entries: Entries) -> Iterator[list[Trained]]:
    """Make exactly ``entries`` trainable, and undo it, values included, at the end."""
    parameters = canonical_parameters(model)
    owners = _owners(model)
    for parameter in parameters.values():
        parameter.requires_grad_(False)
    trained = [Trained(name, parameters[name], index) for name, index in entries.items()]
    with ExitStack() as hooks:
        if any(part.index is not None and part.tensor.ndim > 1 for part in trained):
            # A linear layer's output has a gradient only where something below it asks for one.
            embeddings = model.backbone.get_input_embeddings()
            hooks.callback(embeddings.register_forward_hook(_ask_for_gradient).remove)
        for part in trained:
            if part.index is None or part.tensor.ndim == 1:
                part.tensor.requires_grad_(True)
            else:
                handle = owners[part.name].register_forward_hook(_gather_gradient(part, part.index))
                hooks.callback(handle.remove)
        try:
            yield trained
        finally:
            for part in trained:
                part.restore()
                part.tensor.requires_grad_(False)
                part.tensor.grad = None


def apply(model: EncoderClassifier, delta: Mapping[str, Tensor]) -> None:
    """Write a delta's values into a pretrained model."""
    parameters = canonical_parameters(model)
    with torch.no_grad():
        for name, values in delta.items():
            if name.endswith(INDEX_SUFFIX):
                continue
            index = delta.get(name + INDEX_SUFFIX)
            if index is None:
                parameters[name].copy_(values)
            else:
                parameters[name].view(-1)[index] = values.to(parameters[name].device)


def _owners(model: EncoderClassifier) -> dict[str, nn.Module]:
    return {
        canonical_name(f"{path}.{leaf}"): module
        for path, module in model.named_modules()
        for leaf, _ in module.named_parameters(recurse=False)
    }


def _ask_for_gradient(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    wants = torch.is_grad_enabled() and not output.requires_grad
    return output.requires_grad_(True) if wants else output


def _gather_gradient(part: Trained, index: Tensor) -> Callable[..., None]:
    """A hook that adds the chosen entries' gradient without the whole matrix's.

    Linear: ``W[o, i]`` has gradient Σ_t g[t, o]·x[t, i]. Embedding: ``W[row, column]`` has
    gradient Σ_t g[t, column] over the tokens whose id is ``row``.
    """
    rows = torch.div(index, part.tensor.shape[1], rounding_mode="floor")
    columns = index % part.tensor.shape[1]

    def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        if not torch.is_grad_enabled():
            return
        _ask_for_gradient(module, inputs, output)
        x = inputs[0].detach()

        def gather(gradient: Tensor) -> None:
            g = gradient.detach().flatten(0, -2).float()
            if isinstance(module, nn.Embedding):
                ids = x.expand(gradient.shape[:-1]).flatten()
                token, entry = (ids[:, None] == rows).nonzero(as_tuple=True)
                found = torch.zeros_like(part.values)
                found.index_add_(0, entry, g[token, columns[entry]])
            else:
                found = (g[:, rows] * x.flatten(0, -2)[:, columns]).sum(0)
            part.values.grad = found if part.values.grad is None else part.values.grad + found

        output.register_hook(gather)

    return hook
