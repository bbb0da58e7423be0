"""The step `runs`: write the table of all runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield the job."""
    from subtune.core.files import hash_text, read_package_text

    plan, layout = context.plan, context.layout
    meanings = hash_text(read_package_text("subtune.analysis", "columns.csv"))
    costs = context.estimates.run_costs
    outputs = {"csv": layout.table_of_runs(), "columns": layout.columns_of_runs()}
    masks, places = context.list_masks(plan.runs.values()), {"store": layout.records()}
    inputs = {"finished": context.finished_jobs(plan.sweeps), "masks": masks}
    spec = {
        "experiments": {
            name: [run.json_types for run in runs] for name, runs in plan.experiments.items()
        },
        "flops": {key: cost.flops for key, cost in costs.items()},
        "meanings": meanings,
    }
    yield Job("runs", "runs", spec, inputs, outputs, places)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write a table of all finished runs, and the meaning of each column."""
    from subtune.analysis.tables import column_meanings, table_of_runs
    from subtune.runs.learning_rates import read_finished_runs
    from subtune.runs.records import require_recorded

    store = Path(job.resources["store"])
    require_recorded(store, job.inputs["finished"])
    rows = [
        {**row, "experiment": name, "flops": job.spec["flops"][row["key"]]}
        for name, planned in job.spec["experiments"].items()
        for row in read_finished_runs(store, planned, job.inputs["masks"])
    ]
    table = table_of_runs(store, rows)
    table.to_csv(outputs["csv"], index=False)
    column_meanings(list(table)).to_csv(outputs["columns"], index=False)
