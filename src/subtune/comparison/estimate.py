"""The time that a configuration takes on this machine."""

from collections.abc import Mapping
from dataclasses import replace

from subtune.comparison.messages import Times
from subtune.comparison.starting_model import StartingModel
from subtune.config import Config
from subtune.core import machine
from subtune.plan.cost import Estimates
from subtune.plan.plan import make_plan
from subtune.tasks.task import TaskSize

# A plan needs a commit of each model on the hub. For an estimate any commit will do.
SOME_COMMIT = "0" * 40
# Seconds of the jobs that do not train (tokens, tables, figures), on two cores of a laptop.
OTHER_SECONDS = 25


def estimate(
    config: Config, model: StartingModel, sizes: Mapping[str, TaskSize], tokens: float
) -> tuple[Mapping[str, TaskSize], Times | None]:
    """Estimate the time of a configuration without asking the hub.

    Args:
        config: the configuration.
        model: its model.
        sizes: sizes of tasks from an earlier estimate, whose tables are not read again.
        tokens: the mean number of tokens of a text.

    Returns:
        The sizes of the tasks, and the time, or None if the model's size is unknown.
    """
    config = _without_hub(config, model.name)
    read = make_plan(config, sizes)
    plan = replace(read, sizes={k: size.replaced(tokens=tokens) for k, size in read.sizes.items()})
    estimates = Estimates(plan)
    if estimates.unknown_models:
        return plan.sizes, None
    seconds = [estimates.sweep(sweep).seconds for sweep in plan.sweeps]
    seconds += [estimates.search_job(job).seconds for job in plan.search_jobs]
    # The reference alone, and the regression on embeddings.
    first = max(cost.seconds for cost in estimates.runs.values())
    every = max(sum(seconds) / machine.count_jobs_at_once(), *seconds)
    return plan.sizes, Times(all=every + OTHER_SECONDS, first=first + OTHER_SECONDS)


def _without_hub(config: Config, name: str) -> Config:
    """Return a configuration that can be planned without asking the hub about its model."""
    source = config.models[name]
    if source.hub:
        # The model's pooling is not known, and hardly changes the estimate.
        update = {"revision": SOME_COMMIT, "pooling": source.pooling or "first"}
        source = source.model_copy(update=update)
    return config.model_copy(update={"models": {name: source}})
