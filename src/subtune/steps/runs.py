"""The step `runs`: the table of all runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield the job."""
    plan, paths = context.plan, context.paths
    planned = [
        planned.columns()
        | {"experiment": name, "flops": context.estimates.run_costs[planned.key].flops}
        for name, runs in plan.experiments.items()
        for planned in runs
    ]
    outputs = {"csv": paths.table_of_runs()}
    outputs["columns"] = paths.columns_of_runs()
    inputs, resources = context.finished_inputs(plan.sweeps), {"store": paths.records()}
    yield Job("runs", "runs", {"planned": planned}, inputs, outputs, resources)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the table of all runs, and the meanings of its columns."""
    from subtune.analysis.tables import column_meanings, join_run_ids, table_of_runs

    finished = join_run_ids(job.spec["planned"], job.inputs["sweeps"], job.inputs["searches"])
    table = table_of_runs(Path(job.resources["store"]), finished)
    table.to_csv(outputs["csv"], index=False)
    column_meanings(list(table)).to_csv(outputs["columns"], index=False)
