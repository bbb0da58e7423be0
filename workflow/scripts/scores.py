"""Scores of an experiment. In: its sweeps. Out: all runs, and the best learning rates' runs."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune import facts
    from subtune.analysis import scores
    from subtune.analysis.columns import columns_of

    columns = columns_of(facts.read_tasks(snakemake.params.tasks), snakemake.params.metrics)
    every = scores.collect(snakemake.params.runs, Path(snakemake.params.store), columns)
    every.to_csv(snakemake.output.all, index=False)
    scores.choose(every).to_csv(snakemake.output.chosen, index=False)
