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
    costs = context.estimates.run_costs
    outputs = {"csv": layout.table_of_runs(), "columns": layout.columns_of_runs()}
    inputs, resources = context.sweep_inputs(plan.sweeps), {"store": layout.records()}
    spec = {
        "experiments": {name: plan.describe_runs(runs) for name, runs in plan.experiments.items()},
        "flops": {key: cost.flops for key, cost in costs.items()},
        "meanings": meanings,
    }
    yield Job("runs", "runs", spec, inputs, outputs, resources)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write a table of all runs, and the meaning of each column."""
    from subtune.runs.learning_rates import read_finished_runs

    store, made = Path(job.resources["store"]), [*job.inputs["sweeps"], *job.inputs["searches"]]
    experiments = job.spec["experiments"].items()
    finished = {name: read_finished_runs(runs, store, made) for name, runs in experiments}
    write_table_of_runs(job, finished, outputs)


def write_table_of_runs(
    job: Job, finished: Mapping[str, Sequence[Mapping[str, Any]]], outputs: Mapping[str, str]
) -> None:
    """Write the table of finished runs and the meaning of each column.

    ``finished`` maps experiments to rows from `subtune.runs.learning_rates.join_recorded_runs`.
    """
    from subtune.analysis.tables import column_meanings, table_of_runs

    rows = [
        {**row, "experiment": name, "flops": job.spec["flops"][row["key"]]}
        for name, runs in finished.items()
        for row in runs
    ]
    table = table_of_runs(Path(job.resources["store"]), rows)
    table.to_csv(outputs["csv"], index=False)
    column_meanings(list(table)).to_csv(outputs["columns"], index=False)
