"""Scores of methods by task. In: the chosen runs. Out: csv, md, tex, with the paper's scores."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune import reported
    from subtune.analysis import scores
    from subtune.tables import comparison, writing
    from subtune.tasks import Task

    paper = snakemake.params.paper
    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    printed = pd.concat([reported.scores(paper, name) for name in snakemake.params.printed])
    if snakemake.params.split:
        printed = printed[printed["split"] == snakemake.params.split]
    table = comparison.comparison(
        scores.read_scores(snakemake.input[0]),
        printed,
        scores.columns_of(tasks, paper),
        paper,
        snakemake.params.data,
    )
    emphasis = writing.Emphasis(
        bold=comparison.best_scores(table, paper),
        marks=comparison.differing(table),
        note=comparison.NOTE,
    )
    writing.write(table, snakemake.output, emphasis)
