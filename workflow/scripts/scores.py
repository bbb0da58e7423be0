"""Scores of an experiment. In: its sweeps. Out: all runs, and the best learning rates' runs."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune import analysis
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    scores = analysis.collect(
        snakemake.params.runs, Path(snakemake.params.store), analysis.columns_of(tasks)
    )
    scores.to_csv(snakemake.output.all, index=False)
    analysis.choose(scores).to_csv(snakemake.output.chosen, index=False)
