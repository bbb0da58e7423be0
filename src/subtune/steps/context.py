"""What the jobs of all steps are made from: the configuration, its plan, its paths and costs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from subtune.config import Config
from subtune.core.layout import Layout
from subtune.papers import experiments
from subtune.plan.cost import Cost, Estimates
from subtune.plan.plan import Plan
from subtune.runs.spec import FisherSpec, PlannedRun, RunSpec
from subtune.steps.job import STEPS, Job, Paths, files


@dataclass(frozen=True)
class Context:
    """A configuration with papers, and its plan."""

    config: Config
    plan: Plan

    @cached_property
    def paths(self) -> Layout:
        return Layout(self.config.results)

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.plan)

    @property
    def hub(self) -> dict[str, str]:
        """The resource of a job that may download."""
        return {"hub_cache": self.config.hub_cache or self.paths.hub_cache()}

    def computing(self, spec: RunSpec | FisherSpec, cost: Cost) -> dict[str, Any]:
        """Return the resources of a job that computes."""
        needed = {"mem_mb": self.estimates.memory(spec), "minutes": self.estimates.minutes(cost)}
        return needed | {"store": self.paths.records()}

    def training(self, name: str, runs: Sequence[PlannedRun], cost: Cost) -> dict[str, Any]:
        """Return the resources of a job that trains planned runs.

        ``name`` is that of its checkpoints. ``train_scores`` has the ids of selections: their runs
        are also scored on their training rows.
        """
        scored = [run for run in runs if run.key in self.scored_on_training_rows]
        return self.computing(runs[0].spec, cost) | {
            "checkpoints": self.paths.checkpoints(name),
            "checkpoint_minutes": self.config.checkpoint_minutes,
            "train_scores": sorted({run.spec.selection.id for run in scored}),
        }

    def tokens_and_model(self, run: RunSpec | FisherSpec) -> Paths:
        """Return the inputs of a job that computes."""
        return {
            "tokens": self.paths.tokens(run.tokens.key),
            "model": self.paths.model(run.model.id),
        }

    def finished(self, sweeps: Iterable[str]) -> Paths:
        """Return the inputs of a job that reads runs: sweeps, and the rates that searches found."""
        sweeps = [*sweeps]
        return {
            "sweeps": [*map(self.paths.sweep, sweeps)],
            "searches": [*map(self.paths.searches, self.plan.find_search_jobs(*sweeps))],
        }

    @cached_property
    def scored_on_training_rows(self) -> set[str]:
        """The keys of runs that are also scored on their training rows."""
        found = (
            experiments.scored_on_training_rows(self.config, self.plan, name)
            for name in self.config.experiments
        )
        return set().union(*found)

    def jobs(self) -> Iterator[Job]:
        """Yield the jobs of all steps."""
        for step in STEPS:
            yield from import_module(f"subtune.steps.{step}").jobs(self)

    def settings(self) -> dict[str, Any]:
        """Return the settings that rules need beside the jobs."""
        config = self.config
        papers = {
            name: experiments.paper_of(experiment).citation
            for name, experiment in config.experiments.items()
            if experiment.paper
        }
        return {
            "results": config.results,
            "environment": "cuda" if config.assumptions.on_gpu else "cpu",
            "container": config.container,
            "longest_job_hours": config.assumptions.longest_job_hours,
            "papers": papers,
        }


def targets_of(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """Return the files and folders that each experiment asks for, and those of ``all``."""
    targets: dict[str, list[str]] = {"all": []}
    for job in jobs:
        if job.step in ("exhibits", "submission"):
            targets.setdefault(job.id, []).extend(files(job.outputs))
        if job.step in ("exhibits", "submission", "summary", "runs", "report_page"):
            targets["all"].extend(files(job.outputs))
    return targets
