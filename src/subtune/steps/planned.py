"""Makes the jobs of a configuration from its plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from subtune.config import Config
from subtune.core.layout import FIGURE_ENDINGS, TABLE_ENDINGS, Layout
from subtune.exhibits.glue_server import list_submissions
from subtune.papers import experiments
from subtune.papers.paper import Figure, Table
from subtune.papers.shared import (
    ANSWERS,
    FRONT,
    REPRODUCTION,
    SUBMISSION,
    SUMMARIES,
    SUMMARY,
)
from subtune.plan.cost import Cost, Estimates
from subtune.plan.plan import Plan
from subtune.runs.spec import FisherSpec, PlannedRun, RunSpec
from subtune.steps.job import Job, Paths, digest_of, files, text_of
from subtune.steps.preflight import places_of

# Minutes for which the job of a task's token ids asks.
TOKENS_MINUTES = 30


@dataclass(frozen=True)
class Jobs:
    """The jobs of a configuration with papers, and its plan."""

    config: Config
    plan: Plan

    @cached_property
    def paths(self) -> Layout:
        return Layout(self.config.results)

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.plan)

    @cached_property
    def exhibits(self) -> dict[str, dict[str, Table]]:
        """Tables and figures by experiment and name."""
        return {
            name: experiments.exhibits_of(self.config, experiment)
            for name, experiment in self.config.experiments.items()
        }

    def all(self) -> Iterator[Job]:
        """Yield every job, each after those that make its inputs."""
        yield from self._inputs()
        yield from self._fishers()
        yield from self._searches()
        yield from self._sweeps()
        for name in self.config.experiments:
            yield self._scores(name)
            yield from self._tests(name)
            yield self._exhibits(name)
        yield self._summary()
        yield self._runs()
        yield self._report_page()

    def _named(
        self, kind: str, id: str, spec: Any, inputs: Paths, outputs: Paths, **resources: Any
    ) -> Job:
        """Return a job with a name as id, whose spec is a file among its inputs."""
        own: Paths = {"spec": self.paths.spec(kind, id)}
        job = Job(kind, id, spec, own | inputs, outputs, resources)
        return job._replace(resources=resources | {"digest": digest_of(text_of(job))})

    def _computing(self, spec: RunSpec | FisherSpec, cost: Cost) -> dict[str, Any]:
        """Return the resources of a job that computes."""
        needed = {"mem_mb": self.estimates.memory(spec), "minutes": self.estimates.minutes(cost)}
        return needed | {"store": self.paths.records()}

    def _tokens_and_model(self, run: RunSpec | FisherSpec) -> Paths:
        return {
            "tokens": self.paths.tokens(run.tokens.key),
            "model": self.paths.model(run.model.id),
        }

    def _inputs(self) -> Iterator[Job]:
        """Yield the jobs of rows, models and token ids."""
        hub = {"hub_cache": self.config.hub_cache or self.paths.hub_cache()}
        for key, rows in self.plan.datasets.items():
            places = hub | places_of(self.config, rows)
            outputs: Paths = {"rows": self.paths.dataset(key)}
            yield Job("dataset", key, rows.written(), {}, outputs, places)
        for id, model in self.plan.models.items():
            outputs = {"model": self.paths.model(id)}
            places = hub | {"place": self.plan.locations[id]}
            yield Job("model", id, model.written(), {}, outputs, places)
        for key, tokens in self.plan.tokens.items():
            needed = {"mem_mb": self.estimates.tokens_memory(key), "minutes": TOKENS_MINUTES}
            inputs: Paths = {
                "rows": self.paths.dataset(tokens.data.key),
                "model": self.paths.model(tokens.tokenizer),
            }
            outputs = {"tokens": self.paths.tokens(key)}
            yield Job("tokens", key, tokens.written(), inputs, outputs, needed)

    def _fishers(self) -> Iterator[Job]:
        """Yield the jobs of Fisher information and of rankings by it."""
        for key, fisher in self.plan.fishers.items():
            outputs: Paths = {
                "entries": self.paths.fisher_entries(key),
                "sums": self.paths.fisher_sums(key),
            }
            needed = self._computing(fisher, self.estimates.fisher(key))
            inputs = self._tokens_and_model(fisher)
            yield Job("fisher", key, fisher.written(), inputs, outputs, needed)
        for id, ranking in self.plan.rankings.items():
            inputs = {"fishers": [self.paths.fisher_entries(f.key) for f in ranking.fishers]}
            outputs = {"ranking": self.paths.ranking(id)}
            yield Job("ranking", id, ranking.written(), inputs, outputs, {})

    def _training(self, name: str, runs: Sequence[PlannedRun], cost: Cost) -> dict[str, Any]:
        """Return the resources of a job that trains planned runs.

        ``name`` is that of its checkpoints. ``train_scores`` has the ids of selections: their runs
        are also scored on their training rows.
        """
        scored = [run for run in runs if run.key in self._scored_on_training_rows]
        return self._computing(runs[0].spec, cost) | {
            "checkpoints": self.paths.checkpoints(name),
            "checkpoint_minutes": self.config.checkpoint_minutes,
            "train_scores": sorted({run.spec.selection.id for run in scored}),
        }

    def _searches(self) -> Iterator[Job]:
        """Yield the jobs that search for learning rates."""
        for key, ids in self.plan.search_jobs.items():
            searches = [self.plan.searches[id] for id in ids]
            first, rankings = searches[0].run, {s.run.selection.ranking for s in searches}
            inputs = self._tokens_and_model(first)
            inputs["rankings"] = [self.paths.ranking(id) for id in sorted(filter(None, rankings))]
            outputs: Paths = {"searches": self.paths.searches(key)}
            runs = [run for run in self.plan.runs.values() if run.search in ids]
            needed = self._training(f"search-{key}", runs, self.estimates.search_job(key))
            spec = {"searches": [search.written() for search in searches]}
            yield Job("search", key, spec, inputs, outputs, needed)

    def _sweeps(self) -> Iterator[Job]:
        """Yield the jobs that train."""
        for key, sweep in self.plan.sweeps.items():
            rankings = {run.spec.selection.ranking for run in sweep}
            inputs = self._tokens_and_model(sweep[0].spec)
            inputs["rankings"] = [self.paths.ranking(id) for id in sorted(filter(None, rankings))]
            inputs["searches"] = [*map(self.paths.searches, self.plan.find_search_jobs(key))]
            outputs: Paths = {"sweep": self.paths.sweep(key)}
            needed = self._training(key, sweep, self.estimates.sweep(key))
            spec = {"runs": [run.written() for run in sweep]}
            yield Job("train", key, spec, inputs, outputs, needed)

    @cached_property
    def _scored_on_training_rows(self) -> set[str]:
        """The keys of runs that are also scored on their training rows."""
        found = (
            experiments.scored_on_training_rows(self.config, self.plan, name)
            for name in self.config.experiments
        )
        return set().union(*found)

    def _scores(self, name: str) -> Job:
        """Return the job of an experiment's numbers."""
        experiment = self.config.experiments[name]
        spec = {
            "runs": [
                run.columns() | {"partition": fold.partition if fold else None}
                for run in self.plan.experiments[name]
                for fold in (run.spec.recipe.fold,)
            ],
            "columns": experiments.score_columns(self.config, experiment),
            "paper": experiment.paper or "",
            "margin": experiment.margin,
            "drawn": experiments.parameters_drawn(self.config, experiment),
        }
        tables = ("chosen", "row_scores", "sizes", "learning_curves", "changes")
        outputs: Paths = {"all": self.paths.data(name, "scores")}
        outputs |= {t: self.paths.data(name, t) for t in (*tables, "parameter_changes")}
        inputs = self._finished(self.plan.find_sweeps(name))
        return self._named("scores", name, spec, inputs, outputs, store=self.paths.records())

    def _finished(self, sweeps: Iterable[str]) -> Paths:
        """Return the tables of sweeps, and the rates that their searches found."""
        sweeps = [*sweeps]
        return {
            "sweeps": [*map(self.paths.sweep, sweeps)],
            "searches": [*map(self.paths.searches, self.plan.find_search_jobs(*sweeps))],
        }

    def _tests(self, name: str) -> Iterator[Job]:
        """Yield the jobs of test rows that the GLUE server scores."""
        experiment = self.config.experiments[name]
        chosen: Paths = {"chosen": self.paths.data(name, "chosen")}
        zips = list_submissions(self.config, experiment)
        if not zips:
            return
        tasks = [*filter(self.config.is_submitted, experiment.tasks)]
        for model in experiment.models:
            runs = [[*self.plan.runs_by_method(name, model, task).values()] for task in tasks]
            # Any run of a task will do, because all methods share model and tokens.
            firsts = [self.plan.runs[run].spec for run, *_ in runs]
            tests = [self.plan.tests[run.tokens.key].key for run in firsts]
            inputs = chosen | {
                "tokens": [self.paths.tokens(key) for key in tests],
                "model": self.paths.model(self.plan.model_ids[model]),
            }
            needed = self._computing(
                max(firsts, key=self.estimates.memory),
                self.estimates.test_predictions(chain(*runs)),
            )
            outputs: Paths = {"predictions": self.paths.test_predictions(name, model)}
            spec: dict[str, Any] = {"model": model, "tasks": tasks}
            yield self._named(
                "test_predictions", f"{name}/{model}", spec, inputs, outputs, **needed
            )
        predicted = {m: self.paths.test_predictions(name, m) for m in experiment.models}
        spec = {
            "submissions": [
                {"name": zip, "predicted": predicted[of.model]} | of._asdict()
                for zip, of in zips.items()
            ],
        }
        outputs = {
            "zips": [self.paths.submission(name, zip) for zip in zips],
            "contents": self._files(name, SUBMISSION),
        }
        inputs = chosen | {"predicted": [*predicted.values()]}
        yield self._named("submissions", name, spec, inputs, outputs)

    def _files(self, name: str, exhibit: Table) -> list[str]:
        """Return the files of an experiment's table or figure."""
        return [self.paths.exhibit(name, exhibit.name, ending) for ending in _endings(exhibit)]

    def _page_files(self, name: str, exhibit: Table) -> list[str]:
        """Return the files of a table or figure, with the printed scores beside a reproduction."""
        printed = [self.paths.data(name, exhibit.name)] if exhibit is REPRODUCTION else []
        return self._files(name, exhibit) + printed

    def _exhibits(self, name: str) -> Job:
        """Return the job of an experiment's tables and figures."""
        experiment = self.config.experiments[name]
        fishers = self.plan.experiment_fishers[name].values()
        read = fishers if experiments.paper_of(experiment).shows_information() else ()
        tables = experiments.tables_read(experiment)
        inputs: Paths = {table: self.paths.data(name, table) for table in tables}
        if self.config.test_scores:
            inputs["returned"] = self.config.test_scores
        inputs |= {
            "fisher_sums": [self.paths.fisher_sums(fisher.key) for fisher in read],
            "models": [self.paths.model(self.plan.model_ids[m]) for m in experiment.models],
        }
        exhibits = [e for e in self.exhibits[name].values() if e is not SUBMISSION]
        outputs: Paths = {exhibit.name: self._files(name, exhibit) for exhibit in exhibits}
        made = experiments.tables_made(self.config, experiment)
        outputs["numbers"] = [self.paths.data(name, table) for table in made]
        spec = experiments.about(self.config, self.plan, name)
        return self._named("exhibits", name, spec, inputs, outputs, store=self.paths.records())

    def _summary(self) -> Job:
        """Return the job of the answers, and of a table and a figure of all experiments."""
        names, tasks = self.config.experiments, self.config.all_tasks()
        asked = chain(*(experiment.tasks for experiment in names.values()))
        spec = {
            "tasks": {
                task: {"title": tasks[task].title, "metrics": tasks[task].metric_titles()}
                for task in asked
            },
            # A comparison that is not finished says so here.
            "unfinished": {},
        }
        inputs: Paths = {
            table: [self.paths.data(name, table) for name in names]
            for table in ("chosen", "row_scores")
        }
        outputs: Paths = {e.name: self._summary_files(e) for e in (ANSWERS, SUMMARY, FRONT)}
        return self._named("summary", "summary", spec, inputs, outputs)

    def _summary_files(self, exhibit: Table) -> list[str]:
        return [self.paths.summary(exhibit.name, ending) for ending in _endings(exhibit)]

    def _runs(self) -> Job:
        """Return the job of the table of all runs."""
        spec = {
            "planned": [
                planned.columns()
                | {"experiment": name, "flops": self.estimates.runs[planned.key].flops}
                for name, runs in self.plan.experiments.items()
                for planned in runs
            ]
        }
        outputs: Paths = {ending: self.paths.table_of_runs(ending) for ending in ("csv", "parquet")}
        outputs["columns"] = self.paths.columns_of_runs()
        inputs = self._finished(self.plan.sweeps)
        return self._named("runs", "runs", spec, inputs, outputs, store=self.paths.records())

    def _report_page(self) -> Job:
        """Return the job of the page with all tables and figures."""
        # The tables and figures over all experiments are shown only if there are several.
        over_all = SUMMARIES if len(self.exhibits) > 1 else ()
        answer = [_in_page(exhibit, self._summary_files(exhibit)) for exhibit in over_all]
        sections: list[dict[str, Any]] = [
            {
                "name": name,
                "paper": experiments.paper_of(self.config.experiments[name]).citation,
                "exhibits": [_in_page(e, self._page_files(name, e)) for e in exhibits.values()],
                "scores": self.paths.data(name, "scores"),
                "curves": self.paths.data(name, "learning_curves"),
            }
            for name, exhibits in self.exhibits.items()
        ]
        in_page = chain(answer, *(section["exhibits"] for section in sections))
        inputs: Paths = {
            "runs": self.paths.table_of_runs("parquet"),
            "files": [path for exhibit in in_page for path in exhibit["files"]],
            "tables": [section[table] for section in sections for table in ("scores", "curves")],
        }
        spec = {
            "answer": answer,
            "sections": sections,
            "config": self.config.model_dump(mode="json", exclude_defaults=True),
        }
        return self._named("report_page", "report", spec, inputs, {"page": self.paths.report()})


def targets_of(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """Return the files that each experiment asks for, and those of ``all``."""
    targets: dict[str, list[str]] = {"all": []}
    for job in jobs:
        asked = files(job.outputs)
        if job.step in ("exhibits", "submissions"):
            targets.setdefault(job.id, []).extend(asked)
        if job.step in ("exhibits", "submissions", "summary", "runs", "report_page"):
            targets["all"].extend(asked)
    return targets


def _endings(exhibit: Table) -> tuple[str, ...]:
    return FIGURE_ENDINGS if isinstance(exhibit, Figure) else TABLE_ENDINGS


def _in_page(exhibit: Table, paths: list[str]) -> dict[str, Any]:
    """Return a table's or figure's arguments for the report."""
    return {
        "name": exhibit.name,
        "title": exhibit.title,
        "caption": exhibit.caption,
        "files": paths,
    }


def settings_of(config: Config) -> dict[str, Any]:
    """Return the settings that rules need beside the jobs."""
    papers = {n: experiments.paper_of(e).citation for n, e in config.experiments.items() if e.paper}
    return {
        "results": config.results,
        "environment": "cuda" if config.assumptions.on_gpu else "cpu",
        "container": config.container,
        "longest_job_hours": config.assumptions.longest_job_hours,
        "papers": papers,
    }
