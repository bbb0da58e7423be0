"""The first training of Diff pruning, which selects the entries that train (Guo et al., 2021).

Every entry has a difference ``δ = z·w`` to its pretrained value. In each step, the gate ``z`` in
[0, 1] is drawn from a stretched distribution with the parameter ``α``. A penalty on the expected
number of entries with ``z > 0`` closes gates. At the end, the entries with the largest ``|δ|`` are
kept.
"""

import math
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from subtune.methods.roles import is_classifier
from subtune.methods.selection import Entries, Indices, Whole
from subtune.methods.single_entries import DiffPruningSettings
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import micro_batches, pack
from subtune.runs.spec import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, shuffled_batches, sort_by_length
from subtune.training.checkpoints import Keeper, State
from subtune.training.evaluation import autocast
from subtune.training.training_set import training_set
from subtune.training.training_step import AdamW, learning_rate_at

# Section 4.3: the ends l and r of the stretched distribution, and the initial α. As in the
# published code, draws are at least MARGIN away from 0 and 1.
LOWER, UPPER, FIRST_GATE, MARGIN = -1.5, 1.5, 5.0, 1e-4


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
        keeper: writes checkpoints between steps and after the last step, and reads the newest one
            of an earlier attempt.

    Raises:
        StoppedError: the keeper was asked to stop.
    """
    training = FirstTraining(model, train, task, recipe, seed, settings)
    earlier = keeper.newest() if keeper else None
    if earlier is not None:
        training.restore(*earlier)
    while training.step < len(training.batches):
        training.take_step()
        if keeper:
            keeper.keep(training.states)
    if keeper:
        keeper.write(training.states())
    return training.select(settings.share)


def gate(alpha: Tensor, uniform: Tensor) -> Tensor:
    """Return ``z`` for uniform draws (section 3.1)."""
    stretched = torch.sigmoid(torch.logit(uniform, eps=MARGIN) + alpha) * (UPPER - LOWER) + LOWER
    return stretched.clamp(0, 1)


class FirstTraining:
    """The state of a first training between two steps: differences ``w``, and their gates' ``α``.

    Each entry has a gate; if gates are structured, each tensor has one more. The classifier's
    differences have no gates.

    Attributes:
        batches: the indices of the training examples of each step.
        step: the number of steps that are done.
    """

    def __init__(
        self,
        model: Encoder,
        train: Examples,
        task: TaskSpec,
        recipe: Recipe,
        seed: int,
        settings: DiffPruningSettings,
    ):
        self._model, self._kind, self._settings = model, task.of_kind, settings
        rate = settings.learning_rate or recipe.learning_rate
        self._recipe = recipe.replaced(learning_rate=rate)
        order = np.random.default_rng(seed)
        chosen = training_set(train, task, recipe, order, model.device)
        self._train, self._label_weights = chosen.examples, chosen.label_weights
        epochs = [
            shuffled_batches(len(chosen.index), recipe.batch_size, order)
            for _ in range(recipe.epochs)
        ]
        self.batches = [chosen.index[batch] for batch in chain(*epochs)]
        self.step = 0
        self._masks = DropoutMasks(seed, model.device)
        self._draws = torch.Generator().manual_seed(seed)
        self._start = with_new_classifier(model, seed).parameters
        self._w = {
            name: torch.zeros_like(value, requires_grad=True) for name, value in self._start.items()
        }
        of_tensor = [()] if settings.structured else []
        self._alpha = {
            name: [
                value.new_full(shape, FIRST_GATE, requires_grad=True)
                for shape in (value.shape, *of_tensor)
            ]
            for name, value in self._start.items()
            if not is_classifier(name)
        }
        self._values = AdamW([*self._w.values()], 0.0)
        # The gates of all entries come first, then those of tensors.
        self._gates = AdamW([*chain(*zip(*self._alpha.values(), strict=True))], 0.0)

    def take_step(self) -> None:
        """Update the differences and the gates' parameters with the next batch."""
        train, recipe, kind = self._train, self._recipe, self._kind
        index = sort_by_length(self.batches[self.step], train.lengths)
        alike = micro_batches(index, train.lengths[index], self._model)
        parts = [pack(train, part, self._model) for part in alike]
        labels = sum(kind.loss_divisor(packed.labels, self._label_weights) for packed in parts)
        drawn = self._draw()
        loss = self._settings.penalty * self._expected_size()
        with autocast(self._model.device, recipe.precision):
            weights = {name: self._start[name] + change for name, change in drawn.items()}
            for packed in parts:
                predicted = logits(self._model, packed, weights, self._masks)
                losses = kind.losses(predicted, packed.labels, packed.read_of, self._label_weights)
                loss = loss + losses.sum() / labels
        loss.backward()
        rate = learning_rate_at(self.step, len(self.batches), recipe)
        self._update(self._values, rate)
        self._update(self._gates, self._settings.gate_learning_rate)
        self.step += 1

    def _draw(self) -> dict[str, Tensor]:
        """Return differences ``δ`` by name, for one draw of the gates."""
        drawn = dict(self._w)
        for name, gates in self._alpha.items():
            for alpha in gates:
                uniform = torch.rand(alpha.shape, generator=self._draws, dtype=alpha.dtype)
                drawn[name] = drawn[name] * gate(alpha, uniform.to(alpha.device))
        return drawn

    def _expected_size(self) -> Tensor:
        """Return the expected number of differences that are not 0 (section 3.1)."""
        total = torch.tensor(0.0)
        for gates in self._alpha.values():
            # The probability of ``z > 0``.
            are_open = (torch.sigmoid(alpha - math.log(-LOWER / UPPER)) for alpha in gates)
            total = total + math.prod(probability.sum() for probability in are_open)
        return total

    def select(self, share: float) -> tuple[Entries, dict[str, Tensor]]:
        """Draw the gates once more; keep the classifier and the largest differences (section 3.2).

        Returns:
            The entries that are kept, and the tensors with their values, both by name.
        """
        with torch.no_grad():
            drawn = self._draw()
        sizes = torch.cat([drawn[name].abs().flatten() for name in self._alpha])
        largest = sizes.argsort(descending=True, stable=True)[: int(share * len(sizes))]
        kept = torch.zeros_like(sizes, dtype=torch.bool).index_fill(0, largest, True) & (sizes > 0)
        parts = kept.split([drawn[name].numel() for name in self._alpha])
        masks = dict(zip(self._alpha, parts, strict=True))
        entries: Entries = {}
        values = {}
        for name, start in self._start.items():
            value = start + self._w[name].detach()
            if is_classifier(name):
                entries[name], values[name] = Whole(), value
            elif masks[name].any():
                entries[name] = Indices(masks[name].nonzero()[:, 0].cpu().numpy())
                values[name] = torch.where(masks[name].view(start.shape), value, start)
        return entries, values

    def _update(self, optimizer: AdamW, learning_rate: float) -> None:
        """Step an optimiser with its leaves' gradients, and forget them."""
        gradients = [leaf.grad for leaf in optimizer.leaves]
        optimizer.step(gradients, learning_rate, self._recipe.max_grad_norm)
        for leaf in optimizer.leaves:
            leaf.grad = None

    def states(self) -> list[State]:
        """Return the state from which training can continue, for `restore`."""
        state = {"step": self.step, "masks": self._masks.state(), "draws": self._draws.get_state()}
        return [state | {"values": self._values.state(), "gates": self._gates.state()}]

    def restore(self, state: State) -> None:
        """Continue from a checkpoint of `states`."""
        self.step = state["step"]
        self._draws.set_state(state["draws"])
        masks, generators = state["masks"]
        # Another kind of device cannot read the state of its dropout masks.
        if masks["device"] == self._model.device.type:
            self._masks.restore(masks, generators)
        self._values.restore(state["values"])
        self._gates.restore(state["gates"])
