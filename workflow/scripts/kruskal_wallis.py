"""Kruskal–Wallis test of BitFit against LayerNorm. In: the chosen runs. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores, significance
    from subtune.tables import writing

    chosen = scores.read_scores(snakemake.input[0])
    writing.write(significance.kruskal_wallis_table(chosen), snakemake.output)
