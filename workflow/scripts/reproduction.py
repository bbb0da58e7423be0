"""A paper's printed scores beside ours. In: the chosen runs. Out: one row per printed score."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune import reported
    from subtune.analysis import reproduction, scores

    chosen = scores.read_scores(snakemake.input[0])
    printed = reported.scores(snakemake.params.paper)
    reproduction.reproduction(chosen, printed).to_csv(snakemake.output[0], index=False)
