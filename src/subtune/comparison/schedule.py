"""The order of a comparison's jobs: which can start, and which of these comes first.

Everything here is a value; `subtune.comparison.loop` has the processes and the clock.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from subtune.core.files import hash_text
from subtune.runs.learning_rates import next_rates
from subtune.runs.spec import Fit, PlannedRun, RunSpec, SearchSpec
from subtune.steps.jobs import Job, PlannedJobs, files

# The method that others are compared with, which trains first.
FULL = "full"
# Jobs that make tables, figures and the report from recorded runs.
TABLES = ("scores", "summary", "exhibits", "runs", "report_page")
# A job's step and id.
Key = tuple[str, str]
# The scores of each search's recorded runs, by learning rate.
Scores = Mapping[str, Mapping[float, float]]


@dataclass(frozen=True)
class Schedule:
    """The jobs of a comparison.

    Attributes:
        jobs: the jobs by step and id. Each comes after those that make its inputs. A job that
            trains some runs of searches has their ``methods`` in its spec.
        on_gpu: whether the jobs train on a GPU.
    """

    jobs: dict[Key, Job]
    on_gpu: bool = False

    @cached_property
    def runs(self) -> dict[Key, list[PlannedRun]]:
        """The runs of each job that trains."""
        return {
            key: [PlannedRun.model_validate(run) for run in job.spec["runs"]]
            for key, job in self.jobs.items()
            if job.step == "train"
        }

    @cached_property
    def searches(self) -> dict[str, SearchSpec]:
        """The searches for learning rates, by id: each is a job."""
        return {
            id: SearchSpec.model_validate(*job.spec["searches"])
            for (kind, id), job in self.jobs.items()
            if kind == "search"
        }

    @cached_property
    def searchers(self) -> dict[str, set[str]]:
        """The methods of each search."""
        found: dict[str, set[str]] = {id: set() for id in self.searches}
        for run in self.planned.values():
            if run.search:
                found[run.search].add(run.method)
        return found

    @cached_property
    def planned(self) -> dict[str, PlannedRun]:
        """All planned runs, by key."""
        return {run.key: run for runs in self.runs.values() for run in runs}

    @cached_property
    def before(self) -> dict[Key, set[Key]]:
        """The jobs that make a job's inputs."""
        made_by = {path: key for key, job in self.jobs.items() for path in files(job.outputs)}
        return {
            key: {made_by[path] for path in files(job.inputs) if path in made_by}
            for key, job in self.jobs.items()
        }

    def methods_needing(self, job: Job) -> set[str]:
        """Return the methods that need a job."""
        if job.step == "search":
            return self.searchers[job.id]
        needing = {job_key(job)}
        for key, before in self.before.items():
            if before & needing and key[0] not in TABLES:
                needing.add(key)
        runs = [run for key in needing for run in self.runs.get(key, ())]
        return {run.method for run in runs} | set(job.spec.get("methods", ()))


def make_schedule(plan: PlannedJobs, configuration: Path, on_gpu: bool) -> Schedule:
    """Return the jobs that make all results of a plan, on a GPU or on CPUs.

    Jobs that make tables also need the configuration, which may have another margin later.
    """
    every = [job for by_id in plan.jobs.values() for job in by_id.values()]
    read = {"configuration": str(configuration)}
    every = [j._replace(inputs=j.inputs | read) if j.step in TABLES else j for j in every]
    made_by = {path: job for job in every for path in files(job.outputs)}
    jobs: dict[Key, Job] = {}

    def add(path: str) -> None:
        job = made_by.get(path)
        if job and job_key(job) not in jobs:
            for needed in files(job.inputs):
                add(needed)
            jobs[job_key(job)] = job

    for target in plan.targets["all"]:
        add(target)
    return Schedule(jobs, on_gpu)


def job_key(job: Job) -> Key:
    """Return a job's step and id."""
    return job.step, job.id


def find_done_jobs(schedule: Schedule) -> set[Key]:
    """Return the jobs whose outputs exist and are not older than any input."""
    done: set[Key] = set()
    for key, job in schedule.jobs.items():
        made = [*map(Path, files(job.outputs))]
        if schedule.before[key] <= done and all(path.exists() for path in made):
            times = [
                path.stat().st_mtime_ns for path in map(Path, files(job.inputs)) if path.exists()
            ]
            if max(times, default=0) <= min(path.stat().st_mtime_ns for path in made):
                done.add(key)
    return done


def next_jobs(
    schedule: Schedule,
    done: Collection[Key],
    scores: Scores,
    running: Collection[Job] = (),
    given_up: Collection[str] = (),
) -> list[Job]:
    """Return the jobs that can start, the most useful for the answer first.

    0. Jobs that all runs need.
    1. Regressions on embeddings.
    2. The middle learning rate of each search.
    3. The other rates of searches. A search writes its file once all its runs are trained.
    4. All runs of the first seed, then of the second, and so on.
    5. Tables.

    In each group, full fine-tuning comes before other methods.

    Args:
        scores: the scores of each search's recorded runs.
        running: the jobs that have started.
        given_up: the methods that are left out. Without all methods, there are no tables here.
    """
    searchers = schedule.searchers
    # Searches for methods that are given up are not waited for.
    done_or_given_up = {
        *done,
        *(("search", id) for id in searchers if searchers[id] <= {*given_up}),
    }
    asking = {
        ("search", id)
        for id, spec in schedule.searches.items()
        if next_rates(spec, scores.get(id, {}))
    }
    found: list[tuple[tuple[int, ...], Job]] = []
    for key, job in schedule.jobs.items():
        if key in done or key in asking or (job.step in TABLES and given_up):
            continue
        kept = _without_methods(schedule, job, given_up)
        if kept and schedule.before[key] <= done_or_given_up:
            found.append((_place_in_order(schedule, key), kept))
    found += _jobs_of_searches(schedule, done, scores, running, given_up)
    started = {*map(job_key, running)}
    ordered = sorted(found, key=lambda one: one[0])
    return [job for _, job in ordered if job_key(job) not in started]


def _without_methods(schedule: Schedule, job: Job, given_up: Collection[str]) -> Job | None:
    """Return a job without the runs of some methods, or None if nothing is left.

    Without some of its runs, the job has no outputs.
    """
    if job.step == "search" and schedule.searchers[job.id] <= {*given_up}:
        return None
    if job.step != "train":
        return job
    runs = schedule.runs[job_key(job)]
    kept = [run for run in runs if run.method not in given_up]
    if len(kept) == len(runs):
        return job
    return _training_job(job, kept) if kept else None


def _training_job(job: Job, runs: list[PlannedRun]) -> Job:
    """Return a job that trains these runs, and has no outputs."""
    found = {run.search for run in runs}
    searches = [path for path in job.inputs.get("searches", ()) if Path(path).stem in found]
    return job._replace(
        step="train",
        spec={"runs": [run.written() for run in runs]},
        inputs=job.inputs | {"searches": searches},
        outputs={},
    )


def _place_in_order(schedule: Schedule, key: Key) -> tuple[int, ...]:
    """Return a job's place in the order of `next_jobs`."""
    if key[0] == "train":
        runs = schedule.runs[key]
        if all(isinstance(run.spec.recipe, Fit) for run in runs):
            return (1,)
        is_full = any(run.method == FULL for run in runs)
        return 4, min(run.spec.seed for run in runs), not is_full
    return (5,) if key[0] in TABLES else (0,)


def _jobs_of_searches(
    schedule: Schedule,
    done: Collection[Key],
    scores: Scores,
    running: Collection[Job],
    given_up: Collection[str],
) -> Iterator[tuple[tuple[int, ...], Job]]:
    """Yield a job for the runs that searches ask for; runs that share steps are in one."""
    parts = [job for job in running if "methods" in job.spec]
    started = {PlannedRun.model_validate(run).spec.id for job in parts for run in job.spec["runs"]}
    groups: dict[tuple, list[tuple[str, RunSpec]]] = {}
    for id, spec in schedule.searches.items():
        key, methods = ("search", id), schedule.searchers[id]
        if key in done or methods <= {*given_up} or not schedule.before[key] <= {*done}:
            continue
        for rate in next_rates(spec, scores.get(id, {})):
            run = spec.run.with_learning_rate(rate)
            is_first = not scores.get(id) and rate == spec.rates[len(spec.rates) // 2]
            rank = 2 if is_first else 3, FULL not in methods
            if run.id not in started:
                # No mask is searched for: `compare` plans no fractions.
                alike = rank, run.step_key({}, schedule.on_gpu)
                groups.setdefault(alike, []).append((id, run))
    for (rank, *_), group in groups.items():
        [(first, _), *_] = group
        name = f"search-{hash_text(' '.join(run.id for _, run in group))}"
        runs = [PlannedRun(spec=run) for _, run in group]
        job = _training_job(schedule.jobs["search", first], runs)
        methods = set.union(*(schedule.searchers[id] for id, _ in group))
        # The search removes its own folder of checkpoints when it has all runs.
        checkpoints = str(Path(job.resources["checkpoints"]) / name)
        yield (
            rank,
            job._replace(
                id=name,
                spec=job.spec | {"methods": sorted(methods)},
                resources=job.resources | {"checkpoints": checkpoints},
            ),
        )
