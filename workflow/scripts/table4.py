"""Table 4. In: the tasks. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.tables import layernorm, writing
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    writing.write(layernorm.table4(tasks), snakemake.output)
