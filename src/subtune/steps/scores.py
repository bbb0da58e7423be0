"""The step `scores`: compute the data for an experiment's tables and figures.

The data are the scores of all runs, pseudo-values for intervals, learning curves, changes of
parameters, and two tables of the scores at the best learning rates: one for the largest training
set, and one for every training set size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.methods import method_title
from subtune.steps.jobs import Job

if TYPE_CHECKING:
    import pandas as pd

    from subtune.steps.context import Context
    from subtune.tasks.task import ScoreColumn

SCORE_TABLES = (
    "scores",
    "chosen",
    "row_scores",
    "sizes",
    "learning_curves",
    "changes",
    "parameter_changes",
)


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each experiment."""
    from subtune import papers
    from subtune.core.files import hash_files
    from subtune.plan.inputs import scored_file
    from subtune.tasks.task import list_score_columns

    for name, experiment in context.config.experiments.items():
        paper = papers.find_paper(experiment.paper)
        tasks = [context.config.all_tasks()[task] for task in experiment.tasks]
        predicted = [task for task in tasks if task.predictions]
        # Titles do not affect scores.
        columns = [replace(c, title="") for c in list_score_columns(tasks, paper.metrics)]
        planned = context.plan.experiments[name]
        spec = {
            "runs": [run.json_types for run in planned],
            "models": list(experiment.models),
            "of_texts": sorted({run.method for run in planned if run.spec.reads_texts}),
            "columns": [*map(asdict, columns)],
            "paper": experiment.paper or "",
            "margin": experiment.margin,
            "left_out": ", ".join(map(method_title, experiment.left_out)),
            "share_of_rows": experiment.share_of_rows,
            # Pairs of method and task for which a figure shows the changes of single parameters.
            "drawn": [
                [exhibit.needs.methods[0], exhibit.tasks[0]]
                for exhibit in paper.exhibits
                if "parameter_changes" in exhibit.needs.tables
            ],
            "predictions": {
                task.name: {
                    "task": task.spec().json_types,
                    "systems": {system: hash_files(Path(f)) for system, f in task.predictions},
                }
                for task in predicted
            },
        }
        outputs = {table: context.layout.data(name, table) for table in SCORE_TABLES}
        models = [context.layout.model(context.plan.model_ids[m]) for m in experiment.models]
        finished = context.finished_jobs(context.plan.find_sweeps(name))
        # These paths are not in the spec. Its run keys and hashes of predictions already depend on
        # the contents of the files.
        files = {
            task.name: [str(scored_file(context.config, task, experiment.folds)), task.predictions]
            for task in predicted
        }
        places = {"store": context.layout.records(), "files": files}
        inputs = {"finished": finished, "models": models, "masks": context.list_masks(planned)}
        yield Job("scores", name, spec, inputs, outputs, places)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Check the recorded scores of all finished runs, and write the tables `SCORE_TABLES`."""
    from subtune.analysis import chosen_runs, parameters, run_scores
    from subtune.runs.learning_rates import read_finished_runs
    from subtune.runs.records import require_recorded

    store, columns = Path(job.resources["store"]), _score_columns(job)
    require_recorded(store, job.inputs["finished"])
    finished = read_finished_runs(store, job.spec["runs"], job.inputs["masks"])
    every, best, chosen, row_scores = collect_run_scores(job, finished)
    run_scores.require_scores_of_predictions(best["run"], store)
    drawn = {(method, task) for method, task in job.spec["drawn"]}
    trained = chosen[~chosen_runs.are_external(chosen)]
    tables = {
        "scores": every,
        "chosen": chosen,
        "row_scores": row_scores,
        "sizes": run_scores.score_in_all_metrics(best, store, columns),
        "learning_curves": chosen_runs.read_learning_curves(every, store),
        "changes": parameters.component_changes(trained, store),
        "parameter_changes": parameters.mean_abs_changes(trained, drawn, store),
    }
    for name, table in tables.items():
        table.to_parquet(outputs[name], index=False)


def collect_run_scores(
    job: Job, finished: Sequence[Mapping[str, Any]]
) -> "tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]":
    """Collect the scores of runs, and choose the best learning rates.

    ``finished`` is from `subtune.runs.learning_rates.join_recorded_runs`.

    Returns:
        Four tables: the scores of all runs; the scores at the best learning rates, for every
        training set size; the same for the largest training set, with the scores of external
        predictions; and the pseudo-values of the scores by which methods are compared.
    """
    import pandas as pd

    from subtune.analysis import chosen_runs, run_scores
    from subtune.data.predictions import read_external_predictions
    from subtune.models.dimensions import read_dimensions
    from subtune.tasks.task import TaskSpec

    asked, store, columns = job.spec, Path(job.resources["store"]), _score_columns(job)
    directories = dict(zip(asked["models"], map(Path, job.inputs["models"]), strict=True))
    sizes = {
        name: read_dimensions(directories[name]).parameters
        for name in {run["model"] for run in finished}
    }
    with_sizes = []
    for run in finished:
        size = 0 if run["method"] in asked["of_texts"] else sizes[run["model"]]
        with_sizes.append({**run, "encoder_size": size, "across_models": not asked["paper"]})
    every = run_scores.collect_scores(with_sizes, store, columns, apart=not asked["paper"])
    best = chosen_runs.choose_rates(every)
    largest = chosen_runs.select_largest_training_set(best)
    chosen = chosen_runs.add_curve_verdicts(largest, store, asked["margin"])
    chosen = chosen.assign(**{key: asked[key] for key in ("margin", "left_out", "share_of_rows")})
    # Scores after training on fewer examples show how much more labels would help, which papers do
    # not report.
    scored = chosen if asked["paper"] else best
    row_scores = run_scores.tabulate_pseudo_values(scored, store)
    predictions = {}
    for name, (rows, systems) in job.resources["files"].items():
        task = TaskSpec.model_validate(asked["predictions"][name]["task"])
        predictions[name] = read_external_predictions(task, Path(rows), dict(systems))
    external, external_rows = run_scores.score_external_predictions(chosen, store, predictions)
    if len(external):
        chosen = pd.concat([chosen, external], ignore_index=True)
        # Models with identical files share their runs, which must not be counted twice.
        row_scores = pd.concat([row_scores, external_rows]).drop_duplicates("run")
    return every, best, chosen, row_scores


def _score_columns(job: Job) -> "list[ScoreColumn]":
    from subtune.tasks.task import ScoreColumn

    return [ScoreColumn(**column) for column in job.spec["columns"]]
