"""Reported scores against ours. In: one row per printed score. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import scores
    from subtune.figures import drawing, reproduction
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    titles = {column.key: column.title for column in scores.columns_of(tasks)}
    table = pd.read_csv(snakemake.input[0])
    drawing.save(reproduction.reproduction(table, titles, snakemake.params.style), snakemake.output)
