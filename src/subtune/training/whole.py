"""A tensor that trains whole, in place."""

from torch import nn

from subtune.training.delta import Delta
from subtune.training.part import Part


class Whole(Part):
    """A tensor that is its own leaf."""

    def __init__(self, name: str, tensor: nn.Parameter):
        super().__init__(name, tensor)
        tensor.requires_grad_(True)
        self.leaves = [tensor]

    def delta(self) -> Delta:
        return {self.name: self.tensor.detach().cpu().clone()}
