"""Learning rates and epochs behind the scores. In: the chosen runs. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores
    from subtune.tables import choices, writing
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    table = choices.choices(scores.read_scores(snakemake.input[0]), tasks)
    writing.write(table, snakemake.output)
