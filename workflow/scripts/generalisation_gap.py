"""Generalisation gap of full and BitFit. In: train and dev scores. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import scores
    from subtune.tables import gap, writing
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    table = gap.generalisation_gap(pd.read_csv(snakemake.input[0]), scores.columns_of(tasks))
    writing.write(table, snakemake.output)
