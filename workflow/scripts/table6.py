"""BitFit's best learning rates. In: the chosen runs. Out: csv, md, tex, with the paper's."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import reported
    from subtune.analysis import scores
    from subtune.tables import choices, writing
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    chosen = scores.read_scores(snakemake.input[0])
    printed = reported.table("bitfit_table6.csv")
    table = choices.best_learning_rates(chosen, printed, tasks, "bitfit")
    writing.write(table, snakemake.output)
