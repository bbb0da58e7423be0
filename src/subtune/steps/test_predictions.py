"""The step `test_predictions`: predict the test sets that the GLUE server scores."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.process import prepare_device
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each model of each experiment on GLUE."""
    from subtune.exhibits.glue_server import list_submissions

    config, plan, layout = context.config, context.plan, context.layout
    for name, experiment in config.experiments.items():
        tasks = [*filter(config.is_submitted, experiment.tasks)]
        for model in experiment.models if list_submissions(config, experiment) else ():
            runs = [[*plan.run_keys_by_method(name, model, task).values()] for task in tasks]
            # All methods have the same model and token ids, so one run per task has all inputs.
            firsts = [plan.runs[run].spec for run, *_ in runs]
            inputs = {
                "chosen": layout.data(name, "chosen"),
                "tokens": [layout.tokens(plan.tests[run.tokens.key].key) for run in firsts],
                "model": layout.model(plan.model_ids[model]),
            }
            largest = max(firsts, key=context.estimates.job_memory)
            cost = context.estimates.prediction_cost(chain(*runs))
            outputs = {"predictions": layout.test_predictions(name, model)}
            spec = {"model": model, "tasks": tasks}
            needed = context.model_job_resources(largest, cost)
            yield Job("test_predictions", f"{name}/{model}", spec, inputs, outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Predict the test sets with the chosen runs of a model, and write the logits of each run."""
    import pandas as pd

    from subtune.analysis.chosen_runs import best_of_seeds
    from subtune.analysis.tables import read_table
    from subtune.data.load import read_splits
    from subtune.models.encoder import load_spec_encoder
    from subtune.runs import records
    from subtune.training.recorded_runs import NO_PREDICTIONS, predict_test_rows

    store = Path(job.resources["store"])
    best = best_of_seeds(read_table(job.inputs["chosen"]))
    best = best[best["model"] == job.spec["model"]].dropna(subset=["value"])
    predicted = [NO_PREDICTIONS]
    for name, tokens in zip(job.spec["tasks"], job.inputs["tokens"], strict=True):
        runs = best.loc[best["task"] == name, "run"].unique()
        specs = [records.read_spec(store, run) for run in runs]
        # Regressions on texts or embeddings are left out, because they do not read these token ids.
        specs = [spec for spec in specs if not spec.is_baseline]
        if specs:
            model = load_spec_encoder(specs[0], job.inputs["model"]).to(prepare_device(threads))
            predicted.append(predict_test_rows(store, specs, model, read_splits(Path(tokens))))
    pd.concat(predicted, ignore_index=True).to_parquet(outputs["predictions"], index=False)
