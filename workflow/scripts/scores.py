"""Scores of an experiment. In: its sweeps. Out: all runs, and the best learning rates' runs: those
on the most training rows, and those on every number of them in every metric. It fails if a chosen
run's recorded predictions have another score than its record says.
"""

from subtune.core.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import scores
    from subtune.analysis.recomputation import require_scores_of_predictions
    from subtune.tasks.score_columns import ScoreColumn

    columns = [ScoreColumn(**column) for column in snakemake.params.columns]
    store = Path(snakemake.params.store)
    every = scores.collect(snakemake.params.runs, store, columns)
    every.to_csv(snakemake.output.all, index=False)
    best = scores.choose(every)
    require_scores_of_predictions(best["run"], store)
    scores.on_most_rows(best).to_csv(snakemake.output.chosen, index=False)
    scores.in_every_metric(best, store, columns).to_csv(snakemake.output.sizes, index=False)
