"""The first training of Diff pruning, which selects entries (Guo et al., 2021).

This training learns a difference ``δ = z·w`` between each entry and its pretrained value. In each
step, the gate ``z`` in [0, 1] is drawn from a hard concrete distribution with parameter ``α``. A
penalty on the expected number of entries with ``z > 0`` makes many gates 0. At the end, the entries
with the largest ``|δ|`` are selected.
"""

import math
import time
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from subtune.methods.roles import is_classifier
from subtune.methods.selection import Entries, Indices, Whole
from subtune.methods.single_entries import DiffPruningSettings
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack_micro_batches
from subtune.runs.spec import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, shuffled_batches
from subtune.training.checkpoints import CheckpointStore, State
from subtune.training.evaluation import autocast
from subtune.training.training_set import draw_training_set
from subtune.training.training_step import AdamW, learning_rate_at

# The limits l and r of the stretched distribution of gates, and the initial α (section 4.3). As in
# the published code, uniform draws are clamped to [CLAMP, 1 - CLAMP].
LOWER, UPPER, FIRST_GATE, CLAMP = -1.5, 1.5, 5.0, 1e-4


def compute_gates(alpha: Tensor, uniform: Tensor) -> Tensor:
    """Compute the gates ``z`` from their parameters ``α`` and uniform draws (section 3.1)."""
    stretched = torch.sigmoid(torch.logit(uniform, eps=CLAMP) + alpha) * (UPPER - LOWER) + LOWER
    return stretched.clamp(0, 1)


class GateTraining:
    """The state of the first training between two steps: ``w`` and ``α`` of every entry.

    With structured gates, each tensor has an additional gate, which multiplies the differences of
    all its entries. The classifier has no gates. A learning rate in ``settings`` overrides the
    learning rate in ``recipe``.

    Attributes:
        batches: for each step, the indices of its training examples.
        step: the number of completed steps.
        seconds: the seconds that these steps took.
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
        self._recipe = recipe.replace(learning_rate=rate)
        order = np.random.default_rng(seed)
        chosen = draw_training_set(train, task, recipe, order, model.device)
        self._train, self._label_weights = chosen.examples, chosen.label_weights
        epochs = [
            shuffled_batches(len(chosen.index), recipe.batch_size, order)
            for _ in range(recipe.epochs)
        ]
        self.batches = [chosen.index[batch] for batch in chain(*epochs)]
        self.step, self.seconds = 0, 0.0
        self._masks = DropoutMasks(seed, model.device)
        self._gate_generator = torch.Generator().manual_seed(seed)
        self._start = with_new_classifier(model, seed).parameters
        self._w = {
            name: torch.zeros_like(value, requires_grad=True) for name, value in self._start.items()
        }
        tensor_gate_shapes = [()] if settings.structured else []
        self._alpha = {
            name: [
                value.new_full(shape, FIRST_GATE, requires_grad=True)
                for shape in (value.shape, *tensor_gate_shapes)
            ]
            for name, value in self._start.items()
            if not is_classifier(name)
        }
        self._weights_optimizer = AdamW([*self._w.values()], 0.0)
        # The gates of all entries come before the gates of whole tensors.
        self._gates_optimizer = AdamW([*chain(*zip(*self._alpha.values(), strict=True))], 0.0)

    def run(
        self, keeper: CheckpointStore | None = None
    ) -> tuple[Entries, dict[str, Tensor], float]:
        """Take all steps, and select the entries for the second training.

        The second training is an ordinary run. As in the published code, the initial value of an
        entry is its pretrained value plus ``w``; the gate is dropped. If ``keeper`` has a
        checkpoint of an earlier attempt, training continues from this checkpoint.

        Returns:
            The selected entries and initial tensors, both by tensor name, and the seconds of all
            attempts.

        Raises:
            StoppedError: the job was asked to stop.
        """
        earlier = keeper.read_newest() if keeper else None
        if earlier is not None:
            self.restore(*earlier)
        while self.step < len(self.batches):
            self.take_step()
            if keeper:
                keeper.write_if_due(self.states)
        if keeper:
            keeper.write(self.states())
        return *self.select_entries(), self.seconds

    def take_step(self) -> None:
        """Update ``w`` and ``α`` with the next batch."""
        started = time.monotonic()
        train, recipe, kind = self._train, self._recipe, self._kind
        parts = pack_micro_batches(train, self.batches[self.step], self._model)
        batches = [packed for _, packed in parts]
        labels = sum(kind.loss_divisor(packed.labels, self._label_weights) for packed in batches)
        differences = self._draw_differences()
        loss = self._settings.penalty * self._expected_size()
        with autocast(self._model.device, recipe.precision):
            weights = {name: self._start[name] + change for name, change in differences.items()}
            for packed in batches:
                predicted = compute_logits(self._model, packed, weights, self._masks)
                losses = kind.losses(predicted, packed.labels, packed.read_of, self._label_weights)
                loss = loss + losses.sum() / labels
        loss.backward()
        rate = learning_rate_at(self.step, len(self.batches), recipe)
        self._step_optimizer(self._weights_optimizer, rate)
        self._step_optimizer(self._gates_optimizer, self._settings.gate_learning_rate)
        self.step += 1
        self.seconds += time.monotonic() - started

    def _draw_differences(self) -> dict[str, Tensor]:
        """Draw the gates, and return the differences ``δ`` by tensor name."""
        differences = dict(self._w)
        for name, gates in self._alpha.items():
            for alpha in gates:
                uniform = torch.rand(alpha.shape, generator=self._gate_generator, dtype=alpha.dtype)
                differences[name] = differences[name] * compute_gates(
                    alpha, uniform.to(alpha.device)
                )
        return differences

    def _expected_size(self) -> Tensor:
        """Compute the expected number of nonzero differences (section 3.1)."""
        total = torch.tensor(0.0)
        for gates in self._alpha.values():
            # The probability that ``z > 0``.
            open_gates = (torch.sigmoid(alpha - math.log(-LOWER / UPPER)) for alpha in gates)
            total = total + math.prod(probability.sum() for probability in open_gates)
        return total

    def select_entries(self) -> tuple[Entries, dict[str, Tensor]]:
        """Select the classifier and the entries with the largest differences (section 3.2)."""
        with torch.no_grad():
            differences = self._draw_differences()
        sizes = torch.cat([differences[name].abs().flatten() for name in self._alpha])
        count = int(self._settings.share * len(sizes))
        largest = sizes.argsort(descending=True, stable=True)[:count]
        kept = torch.zeros_like(sizes, dtype=torch.bool).index_fill(0, largest, True) & (sizes > 0)
        parts = kept.split([differences[name].numel() for name in self._alpha])
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

    def _step_optimizer(self, optimizer: AdamW, learning_rate: float) -> None:
        gradients = [leaf.grad for leaf in optimizer.leaves]
        optimizer.step(gradients, learning_rate, self._recipe.max_grad_norm)
        for leaf in optimizer.leaves:
            leaf.grad = None

    def states(self) -> list[State]:
        """Return a list of one state, from which `restore` continues this training."""
        state: State = {"step": self.step, "seconds": self.seconds, "masks": self._masks.state()}
        state["draws"] = self._gate_generator.get_state()
        state["values"] = self._weights_optimizer.state()
        state["gates"] = self._gates_optimizer.state()
        return [state]

    def restore(self, state: State) -> None:
        self.step, self.seconds = state["step"], state["seconds"]
        self._gate_generator.set_state(state["draws"])
        self._masks.restore(*state["masks"])
        self._weights_optimizer.restore(state["values"])
        self._gates_optimizer.restore(state["gates"])
