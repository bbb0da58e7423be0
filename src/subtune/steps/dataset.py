"""The step `dataset`: the rows of one task."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from subtune.core.process import report
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for the rows of each task and source."""
    from subtune.steps.context import places_of

    for key, rows in context.plan.datasets.items():
        places = context.hub | places_of(context.config, rows)
        yield Job("dataset", key, rows.written(), {}, {"rows": context.paths.dataset(key)}, places)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Read the rows of one task, and write all its splits as Arrow."""
    from subtune.data import sources
    from subtune.data.load import load_rows
    from subtune.runs.spec import DataSpec

    spec = DataSpec.model_validate(job.spec)
    place = [job.resources[name] for name in ("glue_dir", "files", "directory")]
    rows = load_rows(spec, *place)
    sources.require_unchanged_files(
        spec, sources.find_files(spec.task, spec.source, spec.splits, *place)
    )
    report(", ".join(f"{split}: {len(rows[split])} rows" for split in rows))
    rows.save_to_disk(outputs["rows"])
