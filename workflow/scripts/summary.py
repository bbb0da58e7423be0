"""All experiments together. In: their chosen runs. Out: answers, a table, a figure."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.analysis.predictions import read_row_scores
    from subtune.analysis.scores import read_scores
    from subtune.analysis.summary import merged_experiments
    from subtune.exhibits.answers import decisions, methods_by_score
    from subtune.exhibits.front import score_by_parameters
    from subtune.exhibits.output import save_figure, write_table
    from subtune.exhibits.results import Results
    from subtune.papers import NO_PAPER

    tables = {
        "chosen": merged_experiments([read_scores(path) for path in snakemake.input.chosen]),
        "row_scores": read_row_scores(snakemake.input.row_scores),
    }
    results = Results(tables, snakemake.params.tasks, NO_PAPER.printed)
    write_table(decisions(results), snakemake.output.answers)
    write_table(methods_by_score(results), snakemake.output.summary)
    save_figure(score_by_parameters(results, snakemake.params.style), snakemake.output.front)
