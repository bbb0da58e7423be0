"""Build the plan of a small comparison: four methods and two folds."""

from collections.abc import Mapping

from subtune.comparison.next_runs import Progress
from subtune.methods import METHODS
from subtune.runs.spec import FitRecipe, Fold, PlannedRun, RunSpec, SearchSpec
from tests.helpers import examples

RATES = (1e-4, 1e-3, 1e-2)
SEARCHED = ("full", "bitfit", "layernorm")


def run_of(method: str, fold: int, model: str = "a") -> RunSpec:
    spec = examples.run_spec()
    spec = spec.replace(model=spec.model.replace(version=model))
    recipe = spec.recipe.replace(fold=Fold(of=2, number=fold))
    if method in ("embeddings", "tf-idf"):
        recipe = FitRecipe(fold=recipe.fold)
    return spec.replace(selection=METHODS[method], recipe=recipe, seed=fold)


def search_of(method: str, model: str = "a") -> SearchSpec:
    return SearchSpec(run=run_of(method, 0, model), rates=RATES)


def score_id(method: str, fold: int, rate: float | None = None, model: str = "a") -> str:
    """Return the id of a run, with the learning rate ``rate`` if its method is searched."""
    run = run_of(method, fold, model)
    return (run.with_learning_rate(rate) if rate else run).id


def progress(
    scores: Mapping[str, float] | None = None, models: tuple[str, ...] = ("a",), left_out=()
) -> Progress:
    """Build the progress of a comparison on two folds.

    The methods of `SEARCHED` search their learning rates. The method ``embeddings`` has none. With
    several models, ``tf-idf`` is planned for the first one.

    Args:
        scores: the scores of finished runs, by run id.
    """
    planned = []
    for model in models:
        names = {"model_name": model, "train_rows": 8, "seed": 0}
        for method in SEARCHED:
            search = search_of(method, model)
            planned += [
                PlannedRun(spec=run_of(method, fold, model), search=search, method=method, **names)
                for fold in (0, 1)
            ]
        planned += [
            PlannedRun(spec=run_of("embeddings", fold, model), method="embeddings", **names)
            for fold in (0, 1)
        ]
    if len(models) > 1:
        names |= {"model_name": models[0], "method": "tf-idf"}
        planned += [PlannedRun(spec=run_of("tf-idf", fold, models[0]), **names) for fold in (0, 1)]
    return Progress(planned, scores or {}, set(left_out))
