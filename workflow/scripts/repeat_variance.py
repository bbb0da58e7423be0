"""The spread over seeds. In: the chosen runs. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores, significance
    from subtune.tables import writing

    chosen = scores.read_scores(snakemake.input[0])
    writing.write(significance.repeat_variance(chosen).round(6), snakemake.output)
