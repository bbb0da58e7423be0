"""Figures 2 and 5. In: the chosen runs. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores
    from subtune.figures import drawing, layernorm
    from subtune.tasks import Task

    tasks = [Task.model_validate(task) for task in snakemake.params.tasks]
    titles = {column.key: column.title for column in scores.columns_of(tasks)}
    chosen = scores.with_whole_selection(scores.read_scores(snakemake.input[0]))
    figure = layernorm.score_by_fraction(
        chosen, titles, snakemake.params.scopes, snakemake.params.references, snakemake.params.style
    )
    drawing.save(figure, snakemake.output)
