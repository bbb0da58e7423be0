"""A paper's printed scores beside ours. In: chosen runs, and test scores where there are some. Out:
one row per printed score.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.analysis import reproduction, scores
    from subtune.papers import printed

    ours = {name: scores.read_scores(path) for name, path in snakemake.input.items()}
    table = reproduction.reproduction(printed=printed.scores(snakemake.params.paper), **ours)
    table.to_csv(snakemake.output[0], index=False)
