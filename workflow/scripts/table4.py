"""Table 4. In: the tasks. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import tables
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    tables.write(tables.table4(tasks), snakemake.output)
