"""The step `mask`: choose the entries that a rule scores highest."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.errors import SubtuneError, locate_errors
from subtune.methods.rules import FISHER, PER_TASK
from subtune.steps.jobs import Job, Paths

if TYPE_CHECKING:
    from subtune.methods.rules import Arrays, Rule
    from subtune.models.families import Shape
    from subtune.runs.spec import MaskSpec
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each mask."""
    layout = context.layout
    for id, mask in context.plan.masks.items():
        inputs = {
            "model": layout.model(mask.samples[0].model.id),
            # The user's file comes first.
            "code": [*map(str, context.rules[mask.top.by].files)],
            **{
                need: [
                    (layout.fisher_entries if need == FISHER else layout.gradient)(sample.key)
                    for sample in mask.list_samples(need)
                ]
                for need in PER_TASK
            },
        }
        outputs = {"mask": layout.mask(id), "code": layout.code_of_mask(id)}
        yield Job("mask", id, mask.json_types, inputs, outputs, {})


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the chosen entries, with their names, and the code of the rule."""
    from subtune.methods.rules import choose_entries, find_rule, sum_scores
    from subtune.methods.single_entries import write_mask
    from subtune.runs.spec import MaskSpec

    spec = MaskSpec.model_validate(job.spec)
    by, (_, colon, function) = spec.top.by, spec.top.by.rpartition(":")
    if colon and by.removesuffix(f":{function}").endswith(".py"):
        # The job may run in another directory than the plan.
        by = f"{job.inputs['code'][0]}:{function}"
    rule = find_rule(by)
    if rule.code_hash != spec.code:
        raise SubtuneError(f"{rule.files[0]} has changed since the plan; run the command again")
    code = rule.read_code()
    with locate_errors(rule.title):
        scores = sum_scores(_score_tasks(spec, job.inputs, rule))
    shapes = _read_shapes(spec, spec.head, job.inputs)
    scores = {name: values for name, values in scores.items() if name in shapes}
    number = spec.top.count_among(sum(values.size for values in scores.values()), shapes)
    chosen, also = choose_entries(scores, number), dict[str, str]()
    if spec.top.by == FISHER and spec.top.share:
        also["top"] = spec.as_top.mask_name
    write_mask(Path(outputs["mask"]), chosen, **also)
    Path(outputs["code"]).write_bytes(code)


def _read_shapes(spec: "MaskSpec", head: str, inputs: Paths) -> "Mapping[str, Shape]":
    """Return the shapes of the tensors that the model has with a head."""
    from subtune.models.dimensions import read_dimensions
    from subtune.models.model_config import choose_head

    dimensions = read_dimensions(Path(inputs["model"]))
    head = choose_head(spec.samples[0].model.pooling, head, dimensions.model_type)
    return dimensions.shapes(1, head)


def _score_tasks(spec: "MaskSpec", inputs: Paths, rule: "Rule") -> "Iterator[Arrays]":
    """Yield the scores on each task, of the tensors that the model has with the task's head."""
    import numpy as np

    from subtune.methods.rules import score_entries
    from subtune.methods.single_entries import read_entry_arrays

    for number, sample in enumerate(spec.samples):
        head = sample.tokens.data.task.of_kind.head
        names = sorted(spec.top.tensors.names(_read_shapes(spec, head, inputs)))
        arrays = {}
        if "weight" in spec.needs:
            from subtune.models.encoder import load_spec_encoder

            parameters = load_spec_encoder(sample, inputs["model"]).parameters
            arrays["weight"] = {name: parameters[name].numpy() for name in names}
        for need in PER_TASK:
            if need in spec.needs:
                read = read_entry_arrays(Path(inputs[need][number]))
                arrays[need] = {name: read[name] for name in names}
        yield score_entries(rule, arrays, np.random.default_rng(spec.seed))
