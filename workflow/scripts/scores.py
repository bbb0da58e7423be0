"""Scores of an experiment. In: its sweeps. Out: all runs; the best learning rates' runs, on the
most training rows and on every number of them; and the scores of parts of their dev rows. It fails
if a chosen run's recorded predictions have another score than its record says.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import curves, scores
    from subtune.analysis.judged_apart import row_scores
    from subtune.analysis.recomputation import require_scores_of_predictions
    from subtune.tasks.task import ScoreColumn

    columns = [ScoreColumn(**column) for column in snakemake.params.columns]
    store = Path(snakemake.params.store)
    apart = not snakemake.params.paper
    every = scores.collect(snakemake.params.runs, store, columns, apart)
    every.to_csv(snakemake.output.all, index=False)
    best = scores.choose(every)
    require_scores_of_predictions(best["run"], store)
    chosen = curves.with_verdicts(scores.on_most_rows(best), store, columns)
    chosen = chosen.assign(margin=snakemake.params.margin)
    chosen.to_csv(snakemake.output.chosen, index=False)
    row_scores(chosen, store, columns).to_csv(snakemake.output.row_scores, index=False)
    scores.in_every_metric(best, store, columns).to_csv(snakemake.output.sizes, index=False)
