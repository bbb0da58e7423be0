"""The context from which all steps make their jobs: configuration, plan, paths and costs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from subtune import papers
from subtune.config.schema import Config
from subtune.core.errors import locate_errors
from subtune.core.files import Layout
from subtune.core.user_code import OWN_FUNCTION, list_code_files, list_package_folders
from subtune.data.predictions import read_external_predictions
from subtune.exhibits.glue_server import expected_server_scores, read_test_scores
from subtune.methods.added import Peft
from subtune.methods.rules import Rule, find_rule
from subtune.models.model_files import read_tokenizer, unknown_lines, unknown_share
from subtune.plan.cost import Cost, Estimates
from subtune.plan.inputs import find_files, scored_file
from subtune.plan.plan import Plan, make_plan
from subtune.runs.spec import FisherSpec, PlannedRun, RunSpec
from subtune.steps.jobs import Paths


@dataclass(frozen=True)
class Context:
    """A checked configuration and its plan, with the paths and costs that jobs need.

    `subtune.papers.assign_papers` has set the papers in ``config``. ``notes`` are messages to the
    user about the inputs, for example about unknown tokens in a table.
    """

    config: Config
    plan: Plan
    notes: Sequence[str] = ()

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.config.results)

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.plan)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules of all masks, by the name that the configuration gives them."""
        return {by: find_rule(by) for by in {mask.top.by for mask in self.plan.masks.values()}}

    @property
    def hub_resources(self) -> dict[str, str]:
        return {"hub_cache": self.config.hub_cache or self.layout.hub_cache()}

    def model_inputs(self, run: RunSpec | FisherSpec) -> Paths:
        tokens, model = self.layout.tokens(run.tokens.key), self.layout.model(run.model.id)
        return {"tokens": tokens, "model": model}

    def model_job_resources(self, spec: RunSpec | FisherSpec, cost: Cost) -> dict[str, Any]:
        return {
            "mem_mb": self.estimates.job_memory(spec),
            "minutes": self.estimates.job_minutes(cost),
            "seconds": round(cost.seconds),
            "gpu": 1,
            "store": self.layout.records(),
        }

    def training_inputs(self, runs: Sequence[PlannedRun]) -> Paths:
        reading = [run.spec for run in runs if run.spec.reads_texts]
        texts = {self.layout.dataset(spec.tokens.data.key) for spec in reading}
        others = {"masks": self.list_masks(runs), "texts": sorted(texts)}
        return self.model_inputs(runs[0].spec) | others

    def list_masks(self, runs: Iterable[PlannedRun]) -> list[str]:
        """List the files of the masks that runs need."""
        return [*map(self.layout.mask, sorted({mask.id for run in runs for mask in run.masks}))]

    def training_resources(self, runs: Sequence[PlannedRun], cost: Cost) -> dict[str, Any]:
        scored = [run for run in runs if run.key in self.scored_on_training_set]
        return self.model_job_resources(runs[0].spec, cost) | {
            "gpu": int(not all(run.spec.reads_texts for run in runs)),
            "checkpoints": self.layout.checkpoints(),
            "checkpoint_minutes": self.config.checkpoint_minutes,
            "scored_selections": sorted({run.spec.selection.id for run in scored}),
        }

    def finished_jobs(self, sweeps: Iterable[str]) -> list[str]:
        """Return the outputs of the jobs of some sweeps, and of the searches that they need."""
        sweeps = [*sweeps]
        searches = self.plan.find_search_jobs(*sweeps)
        return [*map(self.layout.sweep, sweeps), *map(self.layout.searches, searches)]

    @cached_property
    def scored_on_training_set(self) -> set[str]:
        return papers.runs_scored_on_training_set(self.config, self.plan)

    def input_files(self) -> set[Path]:
        """Return all files and directories on which the plan depends."""
        named = filter(None, [self.layout.pinned_commits(), self.config.test_scores])
        found = {*map(Path, named)}
        for rows in self.plan.datasets.values():
            paths = {*find_files(self.config, rows.task, rows.source).values()}
            found |= paths
            if paths and rows.task.name not in self.config.tasks:
                # The modification time of the directory changes if a test file is added later.
                official = self.config.directories.get(rows.task.name) or self.config.glue_dir
                found |= {Path(str(official)), *(path.parent for path in paths)}
        for task in self.config.tasks.values():
            found |= {*map(Path, task.predictions.values())}
        own = [place for each in self.config.baselines.values() for place in each.estimator]
        own += [metric for task in self.config.tasks.values() for metric in task.metrics]
        for selection in self.config.selections.values():
            own += selection.peft.places if isinstance(selection, Peft) else ()
        codes = [rule.files for rule in self.rules.values()]
        for files in (*codes, *map(list_code_files, filter(OWN_FUNCTION.fullmatch, own))):
            found |= {*files} | list_package_folders(files)
        for experiment in self.config.experiments.values():
            paper = papers.find_paper(experiment.paper)
            if not paper.is_built_in:
                found |= {paper.package, *paper.package.rglob("*")}
        for model, spec in self.plan.models.items():
            if spec.source == "files":
                directory = Path(self.plan.locations[model])
                found |= {directory, *directory.rglob("*")}
        return found


def plan_and_check(config: Config) -> Context:
    """Plan a configuration, and check all files and models that it names.

    Files, models and tokenizers that cannot be used raise a `SubtuneError`.
    """
    config = papers.assign_papers(config).with_random_controls()
    plan, notes = make_plan(config), [*papers.list_omissions(config)]
    if config.test_scores:
        read_test_scores(Path(config.test_scores), expected_server_scores(config))
    for name, experiment in config.experiments.items():
        for task in (config.all_tasks()[each] for each in experiment.tasks):
            metric = task.metrics[0]
            if OWN_FUNCTION.fullmatch(metric) and "margin" not in experiment.model_fields_set:
                notes += [f"experiments.{name}: the margin is {experiment.margin:g} in {metric}"]
            if task.predictions:
                path = scored_file(config, task, experiment.folds)
                read_external_predictions(task, path, dict(task.predictions), notes.append)
    for name, model in plan.model_ids.items():
        if plan.models[model].source != "files":
            continue
        directory = Path(plan.locations[model])
        rows = {tokens.data.key for tokens in plan.tokens.values() if tokens.tokenizer == model}
        with locate_errors(f"models.{name}"):
            tokenizer = read_tokenizer(directory)
            for key in sorted(rows):
                share = unknown_share(tokenizer, plan.sizes[key].sample, directory)
                notes += [f"models.{name}: {line}" for line in unknown_lines(share)]
    return Context(config, plan, notes)
