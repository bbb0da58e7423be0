"""Mean |change| of full fine-tuning. In: the chosen runs. Out: task × component × layer."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import parameters, scores

    chosen = scores.read_scores(snakemake.input[0])
    store = Path(snakemake.params.store)
    table = parameters.changes_of_full_tuning(chosen, store)
    table.to_csv(snakemake.output[0], index=False)
