"""Table 2. In: the chosen runs. Out: scores beside the paper's, and the choices behind them."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import analysis, tables
    from subtune.tasks import Task

    chosen = analysis.read_scores(snakemake.input[0])
    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    ours = f"this run: {snakemake.params.model}, {snakemake.params.data} data"
    table = tables.table2(chosen, analysis.columns_of(tasks), ours)
    tables.write(table, snakemake.output.table)
    tables.write(tables.choices(chosen, tasks), snakemake.output.choices)
