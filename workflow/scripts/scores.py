"""Numbers of an experiment's runs.

In: its sweeps and searches. Out: scores of all runs; scores at the best learning rates, on the most
training rows and on every number of rows; scores of parts of the dev rows; learning curves; and
changes of parameters. The job fails if a chosen run's recorded predictions do not give its
recorded score.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import parameters, scores
    from subtune.analysis.predictions import require_scores_of_predictions, row_scores
    from subtune.runs.tables import with_runs
    from subtune.tasks.task import ScoreColumn

    columns = [ScoreColumn(**column) for column in snakemake.params.columns]
    store = Path(snakemake.params.store)
    apart = not snakemake.params.paper
    finished = map(Path, snakemake.input.sweeps), map(Path, snakemake.input.searches)
    planned = with_runs(snakemake.params.planned, *finished)
    every = scores.collect(planned, store, columns, apart)
    best = scores.choose(every)
    require_scores_of_predictions(best["run"], store)
    chosen = scores.with_verdicts(scores.on_most_rows(best), store, columns)
    chosen = chosen.assign(margin=snakemake.params.margin)
    drawn = {(figure["method"], figure["task"]) for figure in snakemake.params.drawn}
    tables = {
        "all": every,
        "chosen": chosen,
        "row_scores": row_scores(chosen, store, columns),
        "sizes": scores.in_every_metric(best, store, columns),
        "learning_curves": scores.learning_curves(every, store),
        "changes": parameters.changes_of_full_tuning(chosen, store),
        "parameter_changes": parameters.changes_of_methods(chosen, drawn, store),
    }
    for name, table in tables.items():
        table.to_csv(snakemake.output[name], index=False)
