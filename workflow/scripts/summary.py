"""All experiments together. In: their chosen runs. Out: answers, a table, a figure."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis.scores import read_scores
    from subtune.analysis.summary import of_all_experiments
    from subtune.exhibits.figures import drawing
    from subtune.exhibits.figures.points import score_by_parameters
    from subtune.exhibits.tables import writing
    from subtune.exhibits.tables.answers import decisions, methods_by_score

    chosen = of_all_experiments([read_scores(path) for path in snakemake.input.chosen])
    rows = pd.concat(pd.read_csv(path, dtype={"run": str}) for path in snakemake.input.row_scores)
    rows = rows.drop_duplicates("run")
    titles = snakemake.params.task_titles
    writing.write(decisions(chosen, titles, rows), snakemake.output.answers)
    writing.write(methods_by_score(chosen, titles, rows), snakemake.output.summary)
    drawing.save(
        score_by_parameters(chosen, titles, snakemake.params.style), snakemake.output.front
    )
