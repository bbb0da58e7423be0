"""Scores of an experiment. In: its sweeps. Out: all runs, and the best learning rates' runs."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import scores
    from subtune.analysis.columns import ScoreColumn

    columns = [ScoreColumn(**column) for column in snakemake.params.columns]
    every = scores.collect(snakemake.params.runs, Path(snakemake.params.store), columns)
    every.to_csv(snakemake.output.all, index=False)
    scores.choose(every).to_csv(snakemake.output.chosen, index=False)
