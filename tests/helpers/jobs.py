"""The jobs of a small comparison."""

from subtune.comparison.schedule import Schedule, job_key
from subtune.methods import METHODS
from subtune.runs.spec import Fit, Fold, PlannedRun, SearchSpec
from subtune.steps.jobs import Job
from tests.helpers import examples

RATES = (1e-4, 1e-3, 1e-2)
PLACES = {"checkpoints": "checkpoints/a"}


def run_of(method: str, fold: int):
    spec = examples.run_spec()
    recipe = spec.recipe.replaced(fold=Fold(of=2, number=fold))
    if method == "embeddings":
        recipe = Fit(fold=recipe.fold)
    return spec.replaced(selection=METHODS[method], recipe=recipe, seed=fold)


def comparison() -> Schedule:
    """Return two folds of four methods, of which two share steps."""
    searches, jobs = {}, []
    jobs.append(Job("tokens", "t", {}, {}, {"tokens": "t"}, {}))
    for method in ("layernorm", "bitfit", "full"):
        spec = SearchSpec(run=run_of(method, 0), rates=RATES)
        searches[method] = spec.id
        outputs = {"searches": f"searches/{spec.id}"}
        jobs.append(
            Job("search", spec.id, {"searches": [spec.written()]}, {"tokens": "t"}, outputs, PLACES)
        )
    for fold in (0, 1):
        for methods in (["bitfit", "layernorm"], ["full"]):
            runs = [PlannedRun(spec=run_of(m, fold), search=searches[m], method=m) for m in methods]
            inputs = {"tokens": "t", "searches": [f"searches/{searches[m]}" for m in methods]}
            jobs.append(train(f"{'+'.join(methods)} {fold}", runs, inputs))
    fits = [PlannedRun(spec=run_of("embeddings", fold), method="embeddings") for fold in (0, 1)]
    jobs.append(train("embeddings", fits, {"tokens": "t"}))
    sweeps = {"sweeps": [job.id for job in jobs if job.step == "train"]}
    jobs.append(Job("scores", "mine", {}, sweeps, {"scores": "scores"}, {}))
    return Schedule({job_key(job): job for job in jobs})


def train(id: str, runs: list[PlannedRun], inputs: dict) -> Job:
    return Job("train", id, {"runs": [r.written() for r in runs]}, inputs, {"sweep": id}, PLACES)
