"""The step `gradient`: compute derivatives of a model with the head of a task, for rules."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import prepare_device
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each derivative that a mask needs."""
    for key, sample in context.plan.gradient_specs.items():
        outputs = {"gradient": context.layout.gradient(key)}
        needed = context.model_job_resources(sample, context.estimates.fisher_cost(sample))
        yield Job("gradient", key, sample.json_types, context.model_inputs(sample), outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write a derivative with respect to the tensors in ``in_full``, or all vectors without it."""
    import safetensors.numpy

    from subtune.data.load import read_splits
    from subtune.models.encoder import load_spec_encoder
    from subtune.runs.spec import FisherSpec
    from subtune.training.gradients import (
        hessian_times_gradient,
        mean_gradient,
        synflow_gradient,
    )

    spec = FisherSpec.model_validate(job.spec)
    task = spec.tokens.data.task
    device, model = prepare_device(threads), load_spec_encoder(spec, job.inputs["model"])
    names = [name for name, shape in model.shapes.items() if len(shape) == 1]
    if spec.in_full:
        names = spec.in_full.names(model.shapes)
    if spec.derivative == "synflow_gradient":
        gradient = synflow_gradient(model, names, spec.seed)
    else:
        model, tokens = model.to(device), read_splits(Path(job.inputs["tokens"]))["train"]
        derive = mean_gradient if spec.derivative == "gradient" else hessian_times_gradient
        gradient = derive(model, tokens, task, names, spec.rows, spec.seed, spec.labels, spec.fold)
    safetensors.numpy.save_file(gradient, outputs["gradient"])
