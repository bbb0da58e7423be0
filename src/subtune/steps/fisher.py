"""The step `fisher`: compute the Fisher information of one task, before fine-tuning."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import log_line, prepare_device
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each task of each experiment, which runs only if its output is needed."""
    layout = context.layout
    for key, fisher in context.plan.fisher_specs.items():
        outputs = {"entries": layout.fisher_entries(key), "sums": layout.fisher_sums(key)}
        needed = context.model_job_resources(fisher, context.estimates.fisher_cost(fisher))
        inputs = context.model_inputs(fisher)
        yield Job("fisher", key, fisher.json_types, inputs, outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the sums over tensors, and the entries of all vectors and of tensors in ``in_full``."""
    import safetensors.numpy

    from subtune.data.load import read_splits
    from subtune.models.encoder import load_spec_encoder
    from subtune.runs.spec import FisherSpec
    from subtune.training.fisher_information import fisher_information

    spec = FisherSpec.model_validate(job.spec)
    task = spec.tokens.data.task
    model = load_spec_encoder(spec, job.inputs["model"]).to(prepare_device(threads))
    tokens = read_splits(Path(job.inputs["tokens"]))["train"]
    in_full = spec.in_full.names(model.shapes) if spec.in_full else []
    information = fisher_information(
        model,
        tokens,
        task,
        spec.rows,
        spec.seed,
        in_full=in_full,
        labels=spec.labels,
        fold=spec.fold,
    )
    safetensors.numpy.save_file(information.entries, outputs["entries"])
    information.sums.to_csv(outputs["sums"], index=False)
    drawn = f"{spec.rows} rows" if spec.rows else f"{len(tokens)} examples"
    log_line(f"{task.name}: Fisher information of {drawn}")
