"""Scores of an experiment. In: its sweeps. Out: all runs, and the best learning rates' runs."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import scores
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    columns = scores.columns_of(tasks, snakemake.params.paper)
    every = scores.collect(snakemake.params.runs, Path(snakemake.params.store), columns)
    every.to_csv(snakemake.output.all, index=False)
    scores.choose(every).to_csv(snakemake.output.chosen, index=False)
