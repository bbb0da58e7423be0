"""Learning curves of an experiment's runs. In: their scores. Out: a row per run and epoch."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import curves, scores

    table = scores.read_scores(snakemake.input[0])
    curves.learning_curves(table, Path(snakemake.params.store)).to_csv(
        snakemake.output[0], index=False
    )
