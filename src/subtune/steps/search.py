"""The step `search`: search for the learning rates of methods, once for all seeds and folds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import log_line
from subtune.steps.jobs import Job
from subtune.steps.train import open_training_function

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each set of searches whose runs are trained together."""
    plan, layout = context.plan, context.layout
    for key, ids in plan.search_jobs.items():
        runs = [run for run in plan.runs.values() if run.search and run.search.id in ids]
        inputs, cost = context.training_inputs(runs), context.estimates.search_cost(key)
        needed = context.training_resources(runs, cost)
        searches = [plan.searches[id] for id in ids]
        spec = {"searches": [search.json_types for search in searches]}
        yield Job("search", key, spec, inputs, {"searches": layout.searches(key)}, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Search for learning rates, and write the best rate of each search and all rates tried."""
    from subtune.methods.single_entries import read_entry_hashes
    from subtune.runs.learning_rates import find_learning_rates
    from subtune.runs.spec import SearchSpec

    masks = read_entry_hashes(map(Path, job.inputs["masks"]))
    planned = map(SearchSpec.model_validate, job.spec["searches"])
    specs = [spec.with_entries(masks.__getitem__) for spec in planned]
    with open_training_function(job, threads) as train:
        found = find_learning_rates(specs, Path(job.resources["store"]), train)
        for id, outcome in found.items():
            log_line(f"search {id} found learning rate {outcome['learning_rate']:g}")
        text = json.dumps(found, indent=2)
        Path(outputs["searches"]).write_text(f"{text}\n", encoding="utf-8")
