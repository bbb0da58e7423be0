"""Test scores of submitted runs. In: chosen runs, entered scores. Out: one CSV."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune import glue_server
    from subtune.analysis import scores

    entered = glue_server.returned_scores(Path(snakemake.input.entered), snakemake.params.forms)
    entered = entered[entered["experiment"] == snakemake.params.experiment]
    chosen = scores.read_scores(snakemake.input.chosen)
    table = glue_server.as_chosen(chosen, entered)
    table.to_csv(snakemake.output[0], index=False)
