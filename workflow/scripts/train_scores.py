"""Training scores of the chosen runs. In: chosen runs, sweeps' scores. Out: train beside dev."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import recomputation, scores

    chosen = scores.read_scores(snakemake.input.chosen)
    trained = pd.concat([pd.read_csv(path, dtype={"run": str}) for path in snakemake.input.sweeps])
    recomputation.train_and_dev(chosen, trained).to_csv(snakemake.output[0], index=False)
