"""Figure 5. In: the chosen runs. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import analysis, figures
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    titles = {column.key: column.title for column in analysis.columns_of(tasks)}
    scores = analysis.with_whole_selection(analysis.read_scores(snakemake.input[0]))
    figure = figures.figure5(scores, titles, snakemake.params.style)
    figures.save(figure, snakemake.output)
