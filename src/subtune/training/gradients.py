"""Gradients of a pretrained model, and their products with the Hessian, before any fine-tuning."""

from collections.abc import Collection

import datasets
import numpy as np
import torch
from torch import Tensor

from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.packing import PackedBatch, pack_micro_batches
from subtune.runs.spec import Fold, Labels
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, evaluation_batches
from subtune.training.evaluation import autocast, check_padding
from subtune.training.fisher_information import Nats, call_in_memory, prepare_examples

# GraSP divides logits by this temperature (Wang et al., 2020), so that the classes of a new
# classifier have almost the same probability.
TEMPERATURE = 200
# Half the distance of the two gradients whose difference gives the product with the Hessian. In
# float32, its relative error is about 3e-4, for smaller distances because of rounding.
HALF_DISTANCE = 5e-3


def mean_gradient(
    model: Encoder,
    tokens: datasets.Dataset,
    task: TaskSpec,
    names: Collection[str],
    rows: int | None = None,
    seed: int = 0,
    labels: Labels = "raw",
    fold: Fold | None = None,
) -> dict[str, np.ndarray]:
    """Compute the gradient of −log p of tensors, averaged over the examples of a training set.

    ``names`` are the names of the tensors. `subtune.training.fisher_information.fisher_information`
    describes the other arguments.
    """
    model = with_new_classifier(model, seed)
    examples, nats = prepare_examples(model, tokens, task, rows, seed, labels, fold)
    values = {name: model.parameters[name] for name in names}
    gradient = _mean_gradient(check_padding(model, [examples]), examples, nats, values)
    return {name: value.cpu().numpy() for name, value in gradient.items()}


def hessian_times_gradient(
    model: Encoder,
    tokens: datasets.Dataset,
    task: TaskSpec,
    names: Collection[str],
    rows: int | None = None,
    seed: int = 0,
    labels: Labels = "raw",
    fold: Fold | None = None,
) -> dict[str, np.ndarray]:
    """Compute the product of the Hessian of −log p with the mean gradient g, for some tensors.

    As in GraSP (Wang et al., 2020, Eq. 8), both are derivatives with respect to these tensors only,
    and logits of classes are divided by `TEMPERATURE`. With the gradient ∇(w) at the weights w and
    a step d = ε g / ‖g‖, the product is ‖g‖ (∇(w + d) − ∇(w − d)) / 2ε. Unlike a second backward
    pass, this needs no second derivative of the model's code.

    `mean_gradient` describes the arguments.
    """
    model = with_new_classifier(model, seed)
    examples, nats = prepare_examples(model, tokens, task, rows, seed, labels, fold)
    model = check_padding(model, [examples])
    temperature = 1 if task.of_kind.has_numbers else TEMPERATURE

    def cooled(outputs: Tensor, batch: PackedBatch) -> Tensor:
        return nats(outputs / temperature, batch)

    values = {name: model.parameters[name] for name in names}
    gradient = _mean_gradient(model, examples, cooled, values)
    norm = torch.stack([g.double().square().sum() for g in gradient.values()]).sum().sqrt()
    if not norm:
        return {name: np.zeros(g.shape, np.float32) for name, g in gradient.items()}
    step = {name: (HALF_DISTANCE / norm * g).to(g.dtype) for name, g in gradient.items()}
    ahead, behind = (
        _mean_gradient(
            model, examples, cooled, {name: values[name] + sign * step[name] for name in step}
        )
        for sign in (1, -1)
    )
    factor = norm / (2 * HALF_DISTANCE)
    return {
        name: (factor * (ahead[name] - behind[name])).to(step[name].dtype).cpu().numpy()
        for name in step
    }


def _mean_gradient(
    model: Encoder, examples: Examples, nats: Nats, values: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Compute the mean gradient with respect to tensors with the given values."""
    leaves = {name: value.clone().requires_grad_(True) for name, value in values.items()}

    def sum_gradients(tokens_per_batch: int) -> None:
        for leaf in leaves.values():
            leaf.grad = torch.zeros_like(leaf)
        # The longest examples come first, because they need the most memory.
        for index in reversed([*evaluation_batches(examples.lengths, tokens_per_batch)]):
            for _, batch in pack_micro_batches(examples, index, model):
                (nats(compute_logits(model, batch, leaves), batch) / len(examples)).backward()

    with autocast(model.device, "fp32"):
        call_in_memory(sum_gradients, model, examples)
    return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
