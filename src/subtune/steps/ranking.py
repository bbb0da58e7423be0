"""The step `ranking`: rank the entries of tensors by Fisher information, for masks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each ranking."""
    for id, ranking in context.plan.rankings.items():
        inputs = {"fishers": [context.layout.fisher_entries(f.key) for f in ranking.fishers]}
        outputs = {"ranking": context.layout.ranking(id)}
        yield Job("ranking", id, ranking.json_types, inputs, outputs, {})


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Rank entries, and write the ranks. A mask has the first ``ceil(fraction * n)`` entries."""
    import safetensors.numpy

    from subtune.methods.single_entries import rank_entries_in_files
    from subtune.runs.spec import RankingSpec

    of = RankingSpec.model_validate(job.spec).of
    ranks = rank_entries_in_files(of, [Path(path) for path in job.inputs["fishers"]])
    safetensors.numpy.save_file(ranks, outputs["ranking"])
