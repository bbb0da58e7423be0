"""All experiments together. In: their chosen runs. Out: answers, a table, a figure."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis.scores import read_scores
    from subtune.analysis.summary import merged_experiments
    from subtune.exhibits.answers import decisions, methods_by_score
    from subtune.exhibits.output import save_figure, write_table
    from subtune.exhibits.plots import score_by_parameters

    chosen = merged_experiments([read_scores(path) for path in snakemake.input.chosen])
    rows = pd.concat(pd.read_csv(path, dtype={"run": str}) for path in snakemake.input.row_scores)
    rows = rows.drop_duplicates("run")
    titles = snakemake.params.task_titles
    write_table(decisions(chosen, titles, rows), snakemake.output.answers)
    write_table(methods_by_score(chosen, titles, rows), snakemake.output.summary)
    save_figure(score_by_parameters(chosen, titles, snakemake.params.style), snakemake.output.front)
