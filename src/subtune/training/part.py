"""What every way to train a tensor has in common."""

from torch import Tensor, nn

from subtune.training.delta import Delta


class Part:
    """One tensor of the shared model, and ``leaves``, the numbers that the optimiser steps for it.

    A part makes its tensor trainable when it is made, and gives the pretrained one back on
    `release`.
    """

    leaves: list[nn.Parameter]

    def __init__(self, name: str, tensor: nn.Parameter):
        self.name = name
        self.tensor = tensor
        self.pretrained = tensor.detach().clone()

    def delta(self) -> Delta:
        """A copy of what is trained, as `subtune.training.delta` describes it."""
        raise NotImplementedError

    def collect_gradient(self) -> None:
        """Move the gradient to the leaves, where it is not there by itself."""

    def write(self) -> None:
        """Put the leaves' new values into the model, where they are not there by themselves."""

    def merge(self) -> None:
        """Let the tensor alone hold what is trained, as it does in a model that is exported."""

    def split(self) -> None:
        """Undo `merge`."""

    def change(self) -> Tensor:
        """The whole tensor now, minus the pretrained one."""
        return self.tensor.detach() - self.pretrained

    def release(self) -> None:
        """Give the model its pretrained values back."""
        self.tensor.data.copy_(self.pretrained)
        self.tensor.requires_grad_(False)
        self.tensor.grad = None
