"""The step `mask`: choose the entries that a rule scores highest."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.errors import SubtuneError
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each mask."""
    layout = context.layout
    for id, mask in context.plan.masks.items():
        rule, keys = context.rules[mask.top.by], [sample.key for sample in mask.samples]
        of_sample = {"gradient": layout.gradient, "fisher": layout.fisher_entries}
        inputs = {
            "model": layout.model(mask.samples[0].model.id),
            "code": [str(rule.place)] if rule.place else [],
            **{
                name: [*map(path, keys)] if name in rule.needs else []
                for name, path in of_sample.items()
            },
        }
        outputs = {"mask": layout.mask(id), "code": layout.code_of_mask(id)}
        cost = context.estimates.start_cost
        needed = context.model_job_resources(mask.samples[0], cost) | {"gpu": 0}
        yield Job("mask", id, mask.json_types, inputs, outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the chosen entries, with a hash of them, and the code of the rule."""
    import numpy as np

    from subtune.methods.rules import choose_entries, find_rule, score_entries, sum_scores
    from subtune.methods.single_entries import read_entry_arrays, write_entries
    from subtune.models.encoder import load_spec_encoder
    from subtune.runs.spec import MaskSpec

    spec = MaskSpec.model_validate(job.spec)
    rule = find_rule(spec.top.by)
    if rule.code_hash != spec.code:
        raise SubtuneError(f"{rule.place} has changed since the plan; run the command again")
    encoder = load_spec_encoder(spec.samples[0], job.inputs["model"])
    names = sorted(spec.top.tensors.names(encoder.shapes))
    weights = {name: encoder.parameters[name].numpy() for name in names}
    per_task = []
    for number in range(len(spec.samples)):
        arrays = {"weight": weights} if "weight" in rule.needs else {}
        for name in ("gradient", "fisher"):
            if name in rule.needs:
                read = read_entry_arrays(Path(job.inputs[name][number]))
                arrays[name] = {tensor: read[tensor] for tensor in names}
        per_task.append(score_entries(rule, arrays, np.random.default_rng(spec.seed)))
    scores = sum_scores(per_task)
    total = sum(score.size for score in scores.values())
    number = spec.top.count_among(total, encoder.shapes)
    write_entries(Path(outputs["mask"]), choose_entries(scores, number))
    Path(outputs["code"]).write_text(rule.code, encoding="utf-8")
