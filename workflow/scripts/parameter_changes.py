"""Mean |change| of single parameters. In: the chosen runs. Out: a row per parameter and layer."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import parameters, scores

    drawn = {(figure["method"], figure["task"]) for figure in snakemake.params.drawn}
    chosen = scores.read_scores(snakemake.input[0])
    table = parameters.changes_of_methods(chosen, drawn, Path(snakemake.params.store))
    table.to_csv(snakemake.output[0], index=False)
