"""The step `train`: the runs of one sweep, each of which leaves a record in the run store.

Records and checkpoints are not outputs, so Snakemake does not delete them. A job that is called
again trains only the runs that are not recorded, from their checkpoints if there are some.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import report
from subtune.steps.computing import training
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each sweep."""
    plan, paths = context.plan, context.paths
    for key, sweep in plan.sweeps.items():
        inputs = context.training_inputs(sweep)
        inputs["searches"] = [*map(paths.searches, plan.find_search_jobs(key))]
        needed = context.training_resources(sweep, context.estimates.sweep_cost(key), key)
        spec = {"runs": [run.written() for run in sweep]}
        yield Job("train", key, spec, inputs, {"sweep": paths.sweep(key)}, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Train the runs of one sweep, and write a record of each and a table of them.

    Records and checkpoints are no outputs, so an interrupted job keeps them.
    """
    import pandas as pd

    from subtune.runs import records
    from subtune.runs.learning_rates import read_searches
    from subtune.runs.spec import PlannedRun

    store = Path(job.resources["store"])
    found = read_searches(job.inputs["searches"])
    rates = {search: outcome["learning_rate"] for search, outcome in found.items()}
    planned = [PlannedRun.model_validate(run) for run in job.spec["runs"]]
    runs = {run.key: run.with_found_rate(rates) for run in planned}
    missing = [spec for spec in runs.values() if not records.is_recorded(store, spec.id)]
    report(f"{len(runs)} runs: {len(runs) - len(missing)} on record, {len(missing)} to train")
    with training(job, threads) as train:
        if missing:
            train([*runs.values()])
    # `compare` trains a sweep or search in parts, which have no table.
    if "sweep" in outputs:
        rows = [
            {"key": key, "run": spec.id} | records.read_outcome(store, spec.id)
            for key, spec in runs.items()
        ]
        pd.json_normalize(rows).to_csv(outputs["sweep"], index=False)
