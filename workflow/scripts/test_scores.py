"""Test scores of the runs that were sent. In: chosen runs, what was entered. Out: one CSV."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import scores, server_scores

    entered = server_scores.read(
        Path(snakemake.input.entered), pd.DataFrame(snakemake.params.forms)
    )
    own = entered[entered["experiment"] == snakemake.wildcards.experiment]
    chosen = scores.read_scores(snakemake.input.chosen)
    server_scores.as_chosen(chosen, own).to_csv(snakemake.output[0], index=False)
