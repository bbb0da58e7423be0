"""The step `model`: fetch the files of one pretrained model."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each model."""
    for id, model in context.plan.models.items():
        places = context.hub_resources | {"place": context.plan.locations[id]}
        outputs = {"model": context.layout.model(id)}
        yield Job("model", id, model.json_types, {}, outputs, places)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Copy or download a pretrained model into a directory from which it loads offline."""
    from subtune.models.model_files import fetch_model
    from subtune.runs.spec import ModelSpec

    spec = ModelSpec.model_validate(job.spec)
    fetch_model(spec, job.resources["place"], Path(outputs["model"]))
