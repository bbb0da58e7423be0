"""Each pair of methods, tested over tasks. In: the chosen runs. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores, significance
    from subtune.tables import writing

    chosen = scores.read_scores(snakemake.input[0])
    writing.write(significance.paired_tests(chosen).round(4), snakemake.output)
