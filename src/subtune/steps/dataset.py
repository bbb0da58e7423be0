"""The step `dataset`: read the examples of one task."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import log_line
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each task and each source of its examples."""
    from subtune.plan.inputs import find_files

    for key, rows in context.plan.datasets.items():
        paths = find_files(context.config, rows.task, rows.source)
        files = {split: str(path) for split, path in paths.items() if split in rows.splits}
        outputs = {"rows": context.layout.dataset(key)}
        places = context.hub_resources | {"files": files}
        yield Job("dataset", key, rows.json_types, {}, outputs, places)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Read the examples of one task, and write all splits as Arrow files."""
    from subtune.data.load import load_rows
    from subtune.data.sources import require_unchanged_files
    from subtune.runs.spec import DataSpec

    spec = DataSpec.model_validate(job.spec)
    paths = {split: Path(path) for split, path in job.resources["files"].items()}
    rows = load_rows(spec, paths)
    require_unchanged_files(spec, paths)
    log_line(", ".join(f"{split}: {len(rows[split])} rows" for split in rows))
    rows.save_to_disk(outputs["rows"])
