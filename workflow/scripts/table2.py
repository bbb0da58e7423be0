"""Table 2. In: the chosen runs. Out: scores beside the paper's, and the choices behind them."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores
    from subtune.tables import layernorm, writing
    from subtune.tasks import Task

    chosen = scores.read_scores(snakemake.input[0])
    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    ours = f"this run: {snakemake.params.model}, {snakemake.params.data} data"
    table = layernorm.table2(chosen, scores.columns_of(tasks), ours)
    writing.write(table, snakemake.output.table)
    writing.write(layernorm.choices(chosen, tasks), snakemake.output.choices)
