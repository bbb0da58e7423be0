"""The first training of Diff pruning: it finds the entries that train (Guo et al., 2021).

Every entry has a difference ``δ = z·w`` to its pretrained value. ``z`` in [0, 1] is drawn in each
step from a stretched distribution that ``α`` moves; a penalty on the expected number of entries
with ``z > 0`` closes gates. At the end the largest ``|δ|`` stay.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from subtune.data.batches import by_length, shuffled
from subtune.families.base import is_classifier
from subtune.models.dropout import DropoutMasks, MasksState
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.packed import micro_batches, pack
from subtune.selections.diff_pruning import DiffPruningSettings
from subtune.selections.specs import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper, State, below
from subtune.training.delta import ChangedEntries, ChangedTensor, Delta
from subtune.training.precision import autocast
from subtune.training.recipe import examples_that_train, learning_rate_at

# Section 4.3: the ends l and r of the stretched distribution, and the first α. The published code
# keeps draws so far from 0 and 1.
LOWER, UPPER, FIRST_GATE, MARGIN = -1.5, 1.5, 5.0, 1e-4
# Prefixes of names in a checkpoint.
VALUE, AVERAGE = "value.", "average."


class Differences(nn.Module):
    """Differences ``w`` with their gates ``α``, and a gate for each tensor, all by index.

    The classifier's difference has no gate.
    """

    def __init__(self, start: Mapping[str, Tensor], structured: bool):
        super().__init__()
        self.start = start
        self.gated = [name for name in start if not is_classifier(name)]
        self.w = nn.ParameterList(torch.zeros_like(value) for value in start.values())
        self.alpha = nn.ParameterList(
            torch.full_like(start[name], FIRST_GATE) for name in self.gated
        )
        of_tensors = [start[name].new_tensor(FIRST_GATE) for name in self.gated]
        self.of_tensor = nn.ParameterList(of_tensors if structured else [])

    def gates(self) -> list[nn.Parameter]:
        """Return every ``α``."""
        return [*self.alpha, *self.of_tensor]

    def drawn(self, draws: torch.Generator) -> dict[str, Tensor]:
        """Return differences ``δ`` by name, for one draw of the gates."""

        def open_by(alpha: Tensor) -> Tensor:
            uniform = torch.rand(alpha.shape, generator=draws, dtype=alpha.dtype)
            return gate(alpha, uniform.to(alpha.device))

        drawn = dict(zip(self.start, self.w, strict=True))
        for number, name in enumerate(self.gated):
            drawn[name] = drawn[name] * open_by(self.alpha[number])
            if len(self.of_tensor):
                drawn[name] = drawn[name] * open_by(self.of_tensor[number])
        return drawn

    def expected_size(self) -> Tensor:
        """Return the expected number of differences that are not 0."""
        total = self.w[0].new_zeros(())
        for number, alpha in enumerate(self.alpha):
            open_entries = probability_open(alpha).sum()
            if len(self.of_tensor):
                open_entries = open_entries * probability_open(self.of_tensor[number])
            total = total + open_entries
        return total


def gate(alpha: Tensor, uniform: Tensor) -> Tensor:
    """Return ``z`` for uniform draws (section 3.1)."""
    stretched = torch.sigmoid(torch.logit(uniform, eps=MARGIN) + alpha) * (UPPER - LOWER) + LOWER
    return stretched.clamp(0, 1)


def probability_open(alpha: Tensor) -> Tensor:
    """Return the probability of ``z > 0`` (section 3.1)."""
    return torch.sigmoid(alpha - math.log(-LOWER / UPPER))


def first_training(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    recipe: Recipe,
    seed: int,
    settings: DiffPruningSettings,
    keeper: Keeper | None = None,
    share: float = 1.0,
) -> Delta:
    """Return the entries that stay, with the values at which the second training starts.

    As in the published code these are ``w``, without the gates. The second training is an ordinary
    run of these entries and the classifier.

    Args:
        model: pretrained, on its device.
        examples: of the training split.
        task: decides the loss.
        recipe: of the run.
        seed: decides the classifier, the order of examples, dropout and the gates' draws.
        settings: of Diff pruning.
        keeper: writes checkpoints between steps and after the last, and reads an earlier one.
        share: the share of the recipe's steps to take.

    Raises:
        StoppedError: the keeper was asked to stop.
    """
    training = _FirstTraining(model, examples["train"], task, recipe, seed, settings, share)
    start = keeper.newest() if keeper else None
    if start is not None:
        training.restore(start)
    while training.step < len(training.batches):
        training.train_batch()
        if keeper:
            keeper.keep(training.state)
    if keeper:
        keeper.write(training.state())
    return training.delta()


class _FirstTraining:
    """Differences and gates between any two steps."""

    def __init__(
        self,
        model: Encoder,
        train: Examples,
        task: TaskSpec,
        recipe: Recipe,
        seed: int,
        settings: DiffPruningSettings,
        share: float,
    ):
        self._model, self._train, self._task = model, train, task
        rate = settings.learning_rate or recipe.one_learning_rate
        self._recipe, self._settings = recipe.replaced(learning_rate=rate), settings
        self._start = with_new_classifier(model, seed).parameters
        order = np.random.default_rng(seed)
        chosen = examples_that_train(train, recipe, order)
        epochs = [shuffled(len(chosen), recipe.batch_size, order) for _ in range(recipe.epochs)]
        batches = [chosen[batch] for epoch in epochs for batch in epoch]
        self.batches = batches[: math.ceil(share * len(batches))]
        self.step = 0
        self._masks = DropoutMasks(seed, model.device)
        self._draws = torch.Generator().manual_seed(seed)
        self._differences = Differences(self._start, settings.structured)
        gates = {"params": self._differences.gates(), "lr": settings.gate_learning_rate}
        groups: list[dict[str, Any]] = [{"params": [*self._differences.w]}, gates]
        self._optimizer = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)

    def train_batch(self) -> None:
        """Take one step of differences and gates."""
        index = by_length(self.batches[self.step], self._train.lengths)
        alike = micro_batches(index, self._train.lengths[index], self._model)
        parts = [pack(self._train, part, self._model) for part in alike]
        labels = sum(len(packed.labels) for packed in parts)
        drawn = self._differences.drawn(self._draws)
        loss = self._settings.penalty * self._differences.expected_size()
        with autocast(self._model.device, self._recipe.precision):
            weights = {name: self._start[name] + change for name, change in drawn.items()}
            for packed in parts:
                predicted = logits(self._model, packed, weights, self._masks)
                of_part = self._task.of_kind.losses(predicted, packed.labels, packed.read_of)
                loss = loss + of_part.sum() / labels
        loss.backward()
        for group in self._optimizer.param_groups:
            nn.utils.clip_grad_norm_(group["params"], self._recipe.max_grad_norm)
        of_w, _ = self._optimizer.param_groups
        of_w["lr"] = learning_rate_at(self.step, len(self.batches), self._recipe)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.step += 1

    def delta(self) -> Delta:
        """Return the values of the classifier and of the largest differences of one more draw."""
        with torch.no_grad():
            drawn = self._differences.drawn(self._draws)
        of_w = zip(self._start.items(), self._differences.w, strict=True)
        values = {name: start + w.detach() for (name, start), w in of_w}
        delta: Delta = {
            name: ChangedEntries(values[name].flatten()[index], index)
            for name, index in kept(drawn, self._differences.gated, self._settings.share).items()
            if len(index)
        }
        return delta | {n: ChangedTensor(values[n]) for n in filter(is_classifier, values)}

    def state(self) -> State:
        """Return everything that decides how training continues."""
        device, bits, generator = self._masks.state()
        tensors = {"masks": generator, "draws": self._draws.get_state()}
        tensors |= {f"{VALUE}{n}": value for n, value in self._differences.state_dict().items()}
        for number, averages in self._optimizer.state_dict()["state"].items():
            tensors |= {f"{AVERAGE}{number}.{name}": value for name, value in averages.items()}
        facts = {"step": self.step, "device": device, "masks": bits}
        return State(tensors, facts, [State({}, {})])

    def restore(self, state: State) -> None:
        """Continue from what `state` returned."""
        self.step = state.facts["step"]
        self._draws.set_state(state.tensors["draws"])
        device = state.facts["device"]
        if device == self._model.device.type:
            bits = state.facts["masks"]
            self._masks.restore(MasksState(device, bits, state.tensors["masks"]))
        self._differences.load_state_dict(below(VALUE, state.tensors))
        averages = below(AVERAGE, state.tensors)
        of_values = {
            number: below(f"{number}.", averages)
            for number in range(sum(1 for _ in self._differences.parameters()))
        }
        self._optimizer.load_state_dict(self._optimizer.state_dict() | {"state": of_values})


def kept(differences: Mapping[str, Tensor], gated: list[str], share: float) -> dict[str, Tensor]:
    """Return the indices of the largest differences in each flattened tensor (section 3.2)."""
    sizes = torch.cat([differences[name].abs().flatten() for name in gated])
    largest = sizes.argsort(descending=True, stable=True)[: int(share * len(sizes))]
    mask = torch.zeros_like(sizes, dtype=torch.bool).index_fill(0, largest, True) & (sizes > 0)
    parts = mask.split([differences[name].numel() for name in gated])
    return {name: part.nonzero()[:, 0] for name, part in zip(gated, parts, strict=True)}
