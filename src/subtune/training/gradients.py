"""Derivatives of a pretrained model for rules, before any fine-tuning."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from subtune.models.encoder import Encoder, make_transformers_model, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.model_files import silence_transformers
from subtune.models.packing import PackedBatch, pack_micro_batches
from subtune.models.transformers_pass import convert_model_errors
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
# Activation functions that the code of some models calls, in addition to modules of transformers.
CALLED_ACTIVATIONS = {torch.tanh, torch.relu, functional.relu, functional.gelu, functional.silu}


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


def synflow_gradient(
    model: Encoder, names: Collection[str], seed: int = 0
) -> dict[str, np.ndarray]:
    """Compute the gradient of SynFlow's objective (Tanaka et al., 2020), for some tensors.

    The objective is the sum of the logits for an input of ones. In the network, all parameters are
    replaced by their absolute values, and activation functions are left out: those of transformers
    (``ACT2FN``), and calls of `CALLED_ACTIVATIONS`. As in the published code of Liu et al. (2025),
    the input is one token whose word embedding is a vector of ones, and norms stay. One token
    attends only to itself, so the gradients of queries and keys are 0. If a model normalises word
    embeddings without positions, as ModernBERT does, the normalised input is 0, and so are almost
    all gradients.

    Raises:
        SubtuneError: transformers' model does not accept embeddings as inputs.
    """
    model = with_new_classifier(model, seed)
    positive = {name: value.abs() for name, value in model.parameters.items()}
    network = make_transformers_model(replace(model, parameters=positive)).eval()
    leaves = [network.get_parameter(model.exported_name(name)) for name in names]
    with convert_model_errors(model), silence_transformers(), _WithoutActivations(network):
        ones = torch.ones(1, 1, network.get_input_embeddings().weight.shape[1])
        outputs = network(inputs_embeds=ones)
    # A model for question answering has the logits of starts and of ends.
    logits = [values.sum() for name, values in outputs.items() if name.endswith("logits")]
    # Parameters that the input does not reach, such as word embeddings, have a gradient of 0.
    gradients = torch.autograd.grad(
        torch.stack(logits).sum(), leaves, allow_unused=True, materialize_grads=True
    )
    return {
        name: (gradient.mT if model.is_transposed(name) else gradient).contiguous().numpy()
        for name, gradient in zip(names, gradients, strict=True)
    }


class _WithoutActivations(TorchFunctionMode):
    """A context in which the activation functions of a model return their inputs."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self._network = network

    def __enter__(self) -> "_WithoutActivations":
        # This import takes a second, and other derivatives do not need it.
        from transformers.activations import ACT2FN

        # Values are classes, or pairs of a class and its arguments.
        kinds = tuple(kind[0] if isinstance(kind, tuple) else kind for kind in ACT2FN.values())
        # Several models can have a module in common, so the hooks are removed.
        self._hooks = [
            module.register_forward_hook(lambda _, inputs, output: inputs[0])
            for module in self._network.modules()
            if isinstance(module, kinds)
        ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in CALLED_ACTIVATIONS else func(*args, **(kwargs or {}))


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
