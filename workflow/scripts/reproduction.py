"""A paper's printed scores beside ours. In: the chosen runs. Out: one row per printed score."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.analysis import reproduction, scores
    from subtune.papers import printed

    chosen = scores.read_scores(snakemake.input[0])
    table = reproduction.reproduction(chosen, printed.scores(snakemake.params.paper))
    table.to_csv(snakemake.output[0], index=False)
