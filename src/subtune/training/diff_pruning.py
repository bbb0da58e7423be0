"""The first training of Diff pruning, which selects the entries that train (Guo et al., 2021).

Every entry has a difference ``δ = z·w`` to its pretrained value. In each step, the gate ``z`` in
[0, 1] is drawn from a stretched distribution with the parameter ``α``; a penalty on the expected
number of entries with ``z > 0`` closes gates. At the end the entries with the largest ``|δ|`` are
kept.
"""

import math
from collections.abc import Mapping
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import by_length, shuffled
from subtune.families.base import is_classifier
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits, micro_batches, pack
from subtune.models.operations import DropoutMasks
from subtune.selections.entries import DiffPruningSettings
from subtune.selections.kind import Entries, Indices, Whole
from subtune.selections.specs import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper, State
from subtune.training.evaluation import autocast, examples_that_train, in_training, weights_of
from subtune.training.recipe import learning_rate_at
from subtune.training.values import AdamW

# Section 4.3: the ends l and r of the stretched distribution, and the initial α. As in the
# published code, draws are at least MARGIN away from 0 and 1.
LOWER, UPPER, FIRST_GATE, MARGIN = -1.5, 1.5, 5.0, 1e-4


class Differences:
    """Differences ``w`` by tensor name, and the parameters ``α`` of their gates.

    Each entry has a gate; if gates are structured, each tensor has one more. The classifier's
    differences have no gates.
    """

    def __init__(self, start: Mapping[str, Tensor], structured: bool):
        self.start = start
        self.w = {n: torch.zeros_like(value, requires_grad=True) for n, value in start.items()}
        of_tensor = [()] if structured else []
        self.alpha = {
            name: [
                value.new_full(shape, FIRST_GATE, requires_grad=True)
                for shape in (value.shape, *of_tensor)
            ]
            for name, value in start.items()
            if not is_classifier(name)
        }

    def drawn(self, draws: torch.Generator) -> dict[str, Tensor]:
        """Return differences ``δ`` by name, for one draw of the gates."""
        drawn = dict(self.w)
        for name, gates in self.alpha.items():
            for alpha in gates:
                uniform = torch.rand(alpha.shape, generator=draws, dtype=alpha.dtype)
                drawn[name] = drawn[name] * gate(alpha, uniform.to(alpha.device))
        return drawn

    def expected_size(self) -> Tensor:
        """Return the expected number of differences that are not 0."""
        total = torch.tensor(0.0)
        for gates in self.alpha.values():
            total = total + math.prod(probability_open(alpha).sum() for alpha in gates)
        return total

    def selected(self, draws: torch.Generator, share: float) -> tuple[Entries, dict[str, Tensor]]:
        """Return the classifier and the largest differences of one more draw (section 3.2), as
        entries that train and as tensors with their values."""
        with torch.no_grad():
            drawn = self.drawn(draws)
        sizes = torch.cat([drawn[name].abs().flatten() for name in self.alpha])
        largest = sizes.argsort(descending=True, stable=True)[: int(share * len(sizes))]
        kept = torch.zeros_like(sizes, dtype=torch.bool).index_fill(0, largest, True) & (sizes > 0)
        parts = kept.split([drawn[name].numel() for name in self.alpha])
        masks = dict(zip(self.alpha, parts, strict=True))
        entries: Entries = {}
        values = {}
        for name, start in self.start.items():
            value = start + self.w[name].detach()
            if is_classifier(name):
                entries[name], values[name] = Whole(), value
            elif masks[name].any():
                entries[name] = Indices(masks[name].nonzero()[:, 0].cpu().numpy())
                values[name] = torch.where(masks[name].view(start.shape), value, start)
        return entries, values


def gate(alpha: Tensor, uniform: Tensor) -> Tensor:
    """Return ``z`` for uniform draws (section 3.1)."""
    stretched = torch.sigmoid(torch.logit(uniform, eps=MARGIN) + alpha) * (UPPER - LOWER) + LOWER
    return stretched.clamp(0, 1)


def probability_open(alpha: Tensor) -> Tensor:
    """Return the probability of ``z > 0`` (section 3.1)."""
    return torch.sigmoid(alpha - math.log(-LOWER / UPPER))


def first_training(
    model: Encoder,
    train: Examples,
    task: TaskSpec,
    recipe: Recipe,
    seed: int,
    settings: DiffPruningSettings,
    keeper: Keeper | None = None,
) -> tuple[Entries, dict[str, Tensor]]:
    """Return the entries of the second training, and the tensors with its initial values, by name.

    As in the published code, these values are ``w``, without the gates. The second training is an
    ordinary run of these entries and the classifier.

    Args:
        seed: the seed of the classifier, the order of examples, dropout and the gates' draws.
        keeper: writes checkpoints between steps and after the last step, and reads an earlier one.

    Raises:
        StoppedError: the keeper was asked to stop.
    """
    rate = settings.learning_rate or recipe.learning_rate
    recipe = recipe.replaced(learning_rate=rate)
    pretrained = with_new_classifier(model, seed).parameters
    order = np.random.default_rng(seed)
    chosen = examples_that_train(train, recipe, order)
    train, _ = in_training(train, chosen, recipe.labels)
    label_weights = weights_of(task, train, chosen, recipe, model.device)
    epochs = [shuffled(len(chosen), recipe.batch_size, order) for _ in range(recipe.epochs)]
    batches = [chosen[batch] for epoch in epochs for batch in epoch]
    steps = len(batches)
    masks, draws = DropoutMasks(seed, model.device), torch.Generator().manual_seed(seed)
    differences = Differences(pretrained, settings.structured)
    values = AdamW([*differences.w.values()], 0.0)
    # The gates of all entries come first, then those of tensors.
    gates = AdamW([*chain(*zip(*differences.alpha.values(), strict=True))], 0.0)
    step = 0

    def state() -> list[State]:
        """Return the state from which training can continue after this step."""
        moments = {"values": values.state(), "gates": gates.state()}
        return [{"step": step, "masks": masks.state(), "draws": draws.get_state(), **moments}]

    earlier = keeper.newest() if keeper else None
    if earlier is not None:
        [saved] = earlier
        step = saved["step"]
        draws.set_state(saved["draws"])
        facts, generators = saved["masks"]
        if facts["device"] == model.device.type:
            masks.restore(facts, generators)
        values.restore(saved["values"])
        gates.restore(saved["gates"])
    while step < steps:
        index = by_length(batches[step], train.lengths)
        alike = micro_batches(index, train.lengths[index], model)
        parts = [pack(train, part, model) for part in alike]
        labels = sum(task.of_kind.total(packed.labels, label_weights) for packed in parts)
        drawn = differences.drawn(draws)
        loss = settings.penalty * differences.expected_size()
        with autocast(model.device, recipe.precision):
            weights = {name: pretrained[name] + change for name, change in drawn.items()}
            for packed in parts:
                predicted = logits(model, packed, weights, masks)
                losses = task.of_kind.losses(
                    predicted, packed.labels, packed.read_of, label_weights
                )
                loss = loss + losses.sum() / labels
        loss.backward()
        _step(values, learning_rate_at(step, steps, recipe), recipe.max_grad_norm)
        _step(gates, settings.gate_learning_rate, recipe.max_grad_norm)
        step += 1
        if keeper:
            keeper.keep(state)
    if keeper:
        keeper.write(state())
    return differences.selected(draws, settings.share)


def _step(optimizer: AdamW, learning_rate: float, max_grad_norm: float) -> None:
    """Take a step with the leaves' own gradients, and forget them."""
    gradients = [leaf.grad for leaf in optimizer.leaves]
    optimizer.step(gradients, learning_rate, max_grad_norm)
    for leaf in optimizer.leaves:
        leaf.grad = None
