"""What the jobs of all steps are made from: a checked configuration, its plan, paths and costs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from subtune import papers
from subtune.config.schema import Config
from subtune.core.errors import placed
from subtune.core.files import Layout
from subtune.exhibits.glue_server import read_test_scores, scores_of_server
from subtune.models.model_files import read_tokenizer, unknown_lines, unknown_share
from subtune.plan.cost import Cost, Estimates
from subtune.plan.inputs import find_files
from subtune.plan.plan import Plan, make_plan
from subtune.runs.spec import FisherSpec, PlannedRun, RunSpec
from subtune.steps.jobs import STEPS, Job, Paths, files


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
            papers.scored_on_training_rows(self.config, self.plan, name)
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
            name: papers.paper_of(experiment).citation
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


def preflight(config: Config) -> tuple[Config, Plan]:
    """Return the configuration with its papers, and its plan.

    Check the files and models that the configuration names.

    Raises:
        SubtuneError: a file or model is missing or wrong.
    """
    config = papers.with_papers(config)
    planned = make_plan(config)
    if config.test_scores:
        read_test_scores(Path(config.test_scores), scores_of_server(config))
    return config, planned


def try_tokenizers(planned: Plan) -> Iterator[str]:
    """Yield a line for each local model and table with many unknown tokens.

    Raises:
        SubtuneError: a tokenizer cannot be read, or has no token for any word of a table.
    """
    for name, model in planned.model_ids.items():
        if planned.models[model].source != "files":
            continue
        directory = Path(planned.locations[model])
        rows = {tokens.data.key for tokens in planned.tokens.values() if tokens.tokenizer == model}
        with placed(f"models.{name}"):
            tokenizer = read_tokenizer(directory)
            for key in sorted(rows):
                share = unknown_share(tokenizer, planned.sizes[key].sample, directory)
                yield from (f"models.{name}: {line}" for line in unknown_lines(share))


def named_files(config: Config, plan: Plan) -> set[Path]:
    """Return the files and model directories on which a plan depends, with pinned commits."""
    found = {Path(Layout(config.results).pinned())}
    if config.test_scores:
        found.add(Path(config.test_scores))
    for rows in plan.datasets.values():
        paths = {*find_files(config, rows.task, rows.source).values()}
        found |= paths
        if paths and rows.task.name not in config.tasks:
            # A test file that is added later changes its folder.
            official = config.directories.get(rows.task.name) or config.glue_dir
            found |= {Path(str(official)), *(path.parent for path in paths)}
    for model, spec in plan.models.items():
        if spec.source == "files":
            directory = Path(plan.locations[model])
            found |= {directory, *directory.rglob("*")}
    return found
