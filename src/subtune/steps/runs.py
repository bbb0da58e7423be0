"""The step `runs`: write the table of all runs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield the job."""
    from subtune.core.files import hash_text, read_package_text

    plan, layout = context.plan, context.layout
    meanings = hash_text(read_package_text("subtune.analysis", "columns.csv"))
    planned, costs = [], context.estimates.run_costs
    for name, runs in plan.experiments.items():
        for run in runs:
            planned.append(run.columns() | {"experiment": name, "flops": costs[run.key].flops})
    outputs = {"csv": layout.table_of_runs(), "columns": layout.columns_of_runs()}
    inputs, resources = context.sweep_inputs(plan.sweeps), {"store": layout.records()}
    spec = {"planned": planned, "meanings": meanings}
    yield Job("runs", "runs", spec, inputs, outputs, resources)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write a table of all runs in finished sweeps."""
    from subtune.analysis.tables import join_run_ids

    finished = join_run_ids(job.spec["planned"], job.inputs["sweeps"], job.inputs["searches"])
    write_table_of_runs(job, finished, outputs)


def write_table_of_runs(
    job: Job, finished: Sequence[Mapping[str, Any]], outputs: Mapping[str, str]
) -> None:
    """Write the table of finished runs (from `join_run_ids`), and the meaning of each column."""
    from subtune.analysis.tables import column_meanings, table_of_runs

    table = table_of_runs(Path(job.resources["store"]), finished)
    table.to_csv(outputs["csv"], index=False)
    column_meanings(list(table)).to_csv(outputs["columns"], index=False)
