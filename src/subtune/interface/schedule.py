"""The order of a comparison's stages: which can start, and which of these comes first.

Everything here is a value; `subtune.interface.driver` has the processes and the clock.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from subtune.core.ids import content_id
from subtune.plan.jobs import part_of_shared_steps
from subtune.runs.search import next_rates
from subtune.runs.spec import Fit, PlannedRun, RunSpec, SearchSpec
from subtune.stages.plan_file import StagePlan
from subtune.stages.stage import Stage, files

# The method that others are compared with, which trains first.
FULL = "full"
# Stages that make tables, figures and the report from recorded runs.
TABLES = ("scores", "summary", "exhibits", "runs", "report_page")
# A stage's kind and id.
Key = tuple[str, str]
# The scores of each search's recorded runs, by learning rate.
Scores = Mapping[str, Mapping[float, float]]


@dataclass(frozen=True)
class Schedule:
    """The stages of a comparison.

    Attributes:
        stages: the stages by kind and id. Each comes after those that make its inputs.
        facts: the columns of each planned run (`subtune.plan.plan.Planned.facts`).
        on_gpu: whether the stages train on a GPU.
    """

    stages: dict[Key, Stage]
    facts: list[dict[str, Any]]
    on_gpu: bool = False

    @cached_property
    def methods(self) -> dict[str, str]:
        """Each planned run's method, by the run's key."""
        return {fact["key"]: fact["method"] for fact in self.facts}

    @cached_property
    def runs(self) -> dict[Key, list[PlannedRun]]:
        """The runs of each stage that trains."""
        return {
            key: [PlannedRun.model_validate(run) for run in stage.spec["runs"]]
            for key, stage in self.stages.items()
            if stage.kind == "train"
        }

    @cached_property
    def searches(self) -> dict[str, SearchSpec]:
        """The searches for learning rates, by id: each is a stage."""
        return {
            id: SearchSpec.model_validate(*stage.spec["searches"])
            for (kind, id), stage in self.stages.items()
            if kind == "search"
        }

    @cached_property
    def searchers(self) -> dict[str, set[str]]:
        """The methods of each search."""
        found: dict[str, set[str]] = {id: set() for id in self.searches}
        for run in self.planned.values():
            if run.search:
                found[run.search].add(self.methods[run.key])
        return found

    @cached_property
    def planned(self) -> dict[str, PlannedRun]:
        """All planned runs, by key."""
        return {run.key: run for runs in self.runs.values() for run in runs}

    @cached_property
    def before(self) -> dict[Key, set[Key]]:
        """The stages that make a stage's inputs."""
        made_by = {path: key for key, stage in self.stages.items() for path in files(stage.outputs)}
        return {
            key: {made_by[path] for path in files(stage.inputs) if path in made_by}
            for key, stage in self.stages.items()
        }

    def methods_of(self, stage: Stage) -> set[str]:
        """Return the methods that need a stage."""
        if stage.kind == "search":
            return self.searchers[stage.id]
        needing = {key_of(stage)}
        for key, before in self.before.items():
            if before & needing and key[0] not in TABLES:
                needing.add(key)
        runs = [run.key for key in needing for run in self.runs.get(key, ())]
        return {self.methods[run] for run in runs} | set(stage.spec.get("methods", ()))


def schedule_of(plan: StagePlan, on_gpu: bool) -> Schedule:
    """Return the stages that make all results of a plan, on a GPU or on CPUs."""
    every = [stage for by_id in plan.stages.values() for stage in by_id.values()]
    made_by = {path: stage for stage in every for path in files(stage.outputs)}
    stages: dict[Key, Stage] = {}

    def add(path: str) -> None:
        stage = made_by.get(path)
        if stage and key_of(stage) not in stages:
            for needed in files(stage.inputs):
                add(needed)
            stages[key_of(stage)] = stage

    for target in plan.targets["all"]:
        add(target)
    facts = [fact for stage in plan.stages["scores"].values() for fact in stage.spec["runs"]]
    return Schedule(stages, facts, on_gpu)


def key_of(stage: Stage) -> Key:
    """Return a stage's kind and id."""
    return stage.kind, stage.id


def done_before(schedule: Schedule) -> set[Key]:
    """Return the stages whose outputs exist and are not older than any input."""
    done: set[Key] = set()
    for key, stage in schedule.stages.items():
        made = [*map(Path, files(stage.outputs))]
        if schedule.before[key] <= done and all(path.exists() for path in made):
            times = [
                path.stat().st_mtime_ns for path in map(Path, files(stage.inputs)) if path.exists()
            ]
            if max(times, default=0) <= min(path.stat().st_mtime_ns for path in made):
                done.add(key)
    return done


def next_stages(
    schedule: Schedule,
    done: Collection[Key],
    scores: Scores,
    running: Collection[Stage] = (),
    given_up: Collection[str] = (),
) -> list[Stage]:
    """Return the stages that can start, the most useful for the answer first.

    1. Stages that all runs need, and regressions on embeddings.
    2. The middle learning rate of each search, then its other rates. A search writes its file once
       all its runs are trained.
    3. All runs of the first seed, then of the second, and so on.

    In each group, full fine-tuning comes before other methods.

    Args:
        scores: the scores of each search's recorded runs.
        running: the stages that have started.
        given_up: the methods that are left out. Without all methods, there are no tables here.
    """
    found: list[tuple[tuple[int, ...], Stage]] = []
    for key, stage in schedule.stages.items():
        if key in done or (stage.kind in TABLES and given_up):
            continue
        kept = _without(schedule, stage, given_up)
        is_asking = stage.kind == "search" and bool(_rates(schedule, stage.id, scores))
        if kept and not is_asking and _needs(schedule, key, given_up) <= {*done}:
            found.append((_rank(schedule, key), kept))
    found += _candidates(schedule, done, scores, running, given_up)
    started = {*map(key_of, running)}
    ordered = sorted(found, key=lambda one: one[0])
    return [stage for _, stage in ordered if key_of(stage) not in started]


def _needs(schedule: Schedule, key: Key, given_up: Collection[str]) -> set[Key]:
    """Return the stages before a stage, without searches of methods that are given up."""
    searchers = schedule.searchers
    return {
        (kind, id)
        for kind, id in schedule.before[key]
        if kind != "search" or not searchers[id] <= {*given_up}
    }


def _without(schedule: Schedule, stage: Stage, given_up: Collection[str]) -> Stage | None:
    """Return a stage without the runs of some methods, or None if nothing is left.

    Without some of its runs, the stage has no outputs.
    """
    if stage.kind == "search" and schedule.searchers[stage.id] <= {*given_up}:
        return None
    if stage.kind != "train":
        return stage
    runs = schedule.runs[key_of(stage)]
    kept = [run for run in runs if schedule.methods[run.key] not in given_up]
    if len(kept) == len(runs):
        return stage
    return _of_runs(stage, kept) if kept else None


def _of_runs(stage: Stage, runs: list[PlannedRun]) -> Stage:
    """Return a stage that trains these runs, and has no outputs."""
    found = {run.search for run in runs}
    searches = [path for path in stage.inputs.get("searches", ()) if Path(path).stem in found]
    return stage._replace(
        kind="train",
        spec={"runs": [run.written() for run in runs]},
        inputs=stage.inputs | {"searches": searches},
        outputs={},
    )


def _rates(schedule: Schedule, search: str, scores: Scores) -> list[float]:
    return next_rates(schedule.searches[search], scores.get(search, {}))


def _rank(schedule: Schedule, key: Key) -> tuple[int, ...]:
    """Return a stage's place in the order of `next_stages`."""
    if key[0] == "train":
        runs = schedule.runs[key]
        if all(isinstance(run.run.recipe, Fit) for run in runs):
            return (1,)
        is_full = any(schedule.methods[run.key] == FULL for run in runs)
        return 4, min(run.run.seed for run in runs), not is_full
    return (5,) if key[0] in (*TABLES, "train_scores") else (0,)


def _candidates(
    schedule: Schedule,
    done: Collection[Key],
    scores: Scores,
    running: Collection[Stage],
    given_up: Collection[str],
) -> Iterator[tuple[tuple[int, ...], Stage]]:
    """Yield a stage for the runs that searches ask for; runs that share steps are in one."""
    started = {run for stage in running for run in stage.spec.get("candidates", ())}
    groups: dict[tuple, list[tuple[str, RunSpec]]] = {}
    for id, spec in schedule.searches.items():
        key, methods = ("search", id), schedule.searchers[id]
        if key in done or methods <= {*given_up} or not schedule.before[key] <= {*done}:
            continue
        for rate in _rates(schedule, id, scores):
            run = spec.run.with_learning_rate(rate)
            is_first = not scores.get(id) and rate == spec.rates[len(spec.rates) // 2]
            rank = 2 if is_first else 3, FULL not in methods
            if run.id not in started:
                part = part_of_shared_steps(run, run.selection.work(), schedule.on_gpu)
                alike = rank, run.model.id, run.tokens.id, run.recipe.epochs, part
                groups.setdefault(alike, []).append((id, run))
    for (rank, *_), group in groups.items():
        yield rank, _trained(schedule, dict(group), [run for _, run in group])


def _trained(schedule: Schedule, searches: Collection[str], runs: list[RunSpec]) -> Stage:
    """Return the stage that trains some runs of searches."""
    stages = [schedule.stages["search", id] for id in searches]
    ids = [run.id for run in runs]
    name = f"search-{content_id(' '.join(ids))}"
    stage = _of_runs(stages[0], [PlannedRun(run=run) for run in runs])
    # The search removes its own folder of checkpoints when it has all runs.
    checkpoints = Path(stage.resources["checkpoints"]) / name
    return stage._replace(
        id=name,
        spec=stage.spec
        | {"candidates": ids}
        | {"methods": sorted({m for id in searches for m in schedule.searchers[id]})},
        resources=stage.resources | {"checkpoints": str(checkpoints)},
    )
