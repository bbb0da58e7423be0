"""All experiments together. In: their chosen runs. Out: answers, a table, a figure."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.analysis.predictions import read_row_scores
    from subtune.analysis.scores import read_scores
    from subtune.analysis.summary import merged_experiments
    from subtune.exhibits.answers import decisions, methods_by_score
    from subtune.exhibits.front import score_by_parameters
    from subtune.exhibits.output import save_figure, write_table

    chosen = merged_experiments([read_scores(path) for path in snakemake.input.chosen])
    rows = read_row_scores(snakemake.input.row_scores)
    titles = snakemake.params.task_titles
    write_table(decisions(chosen, titles, rows), snakemake.output.answers)
    write_table(methods_by_score(chosen, titles, rows), snakemake.output.summary)
    front = score_by_parameters(chosen, rows, titles, snakemake.params.style)
    save_figure(front, snakemake.output.front)
