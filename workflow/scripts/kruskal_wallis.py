"""Kruskal–Wallis test of BitFit against LayerNorm. In: the chosen runs. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import analysis, tables

    chosen = analysis.read_scores(snakemake.input[0])
    tables.write(analysis.kruskal_wallis_table(chosen), snakemake.output)
