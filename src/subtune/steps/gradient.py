"""The step `gradient`: compute the gradient of the loss of one task, before fine-tuning."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import prepare_device
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for the examples of each mask whose rule needs gradients."""
    for key, sample in context.plan.list_samples("gradient").items():
        outputs = {"gradient": context.layout.gradient(key)}
        needed = context.model_job_resources(sample, context.estimates.fisher_cost(sample))
        yield Job("gradient", key, sample.json_types, context.model_inputs(sample), outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the mean gradient of the tensors in ``in_full``, or of all vectors without it."""
    import safetensors.numpy

    from subtune.data.load import read_splits
    from subtune.models.encoder import load_spec_encoder
    from subtune.runs.spec import FisherSpec
    from subtune.training.fisher_information import mean_gradient

    spec = FisherSpec.model_validate(job.spec)
    task = spec.tokens.data.task
    model = load_spec_encoder(spec, job.inputs["model"]).to(prepare_device(threads))
    tokens = read_splits(Path(job.inputs["tokens"]))["train"]
    names = [name for name, shape in model.shapes.items() if len(shape) == 1]
    if spec.in_full:
        names = spec.in_full.names(model.shapes)
    gradient = mean_gradient(
        model, tokens, task, names, spec.rows, spec.seed, spec.labels, spec.fold
    )
    safetensors.numpy.save_file(gradient, outputs["gradient"])
