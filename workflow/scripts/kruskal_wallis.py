"""Kruskal–Wallis test of BitFit against LayerNorm. In: dev and test scores. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import scores, significance
    from subtune.tables import writing

    dev = scores.read_scores(snakemake.input.dev)
    test = scores.read_scores(snakemake.input.test) if snakemake.input.test else None
    writing.write(significance.kruskal_wallis_table(dev, test), snakemake.output)
