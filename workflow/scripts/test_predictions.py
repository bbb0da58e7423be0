"""Predictions of test rows. In: chosen runs, each task's tokens, model. Out: logits, run by run."""

from subtune.core.jobs import job, prepare

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import scores
    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs import recording, records
    from subtune.selections.specs import Fit

    device = prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    best = best[best["model"] == snakemake.wildcards.encoder].dropna(subset=["value"])
    predicted = [recording.NO_PREDICTIONS]
    for name, tokens in zip(snakemake.params.tasks, snakemake.input.tokens, strict=True):
        runs = best.loc[best["task"] == name, "run"].unique()
        specs = [records.read_spec(store, run) for run in runs]
        # A regression on embeddings reads other tokens.
        specs = [spec for spec in specs if not isinstance(spec.recipe, Fit)]
        if specs:
            model = model_of(specs[0], snakemake.input.model).to(device)
            predicted.append(recording.predict_test_rows(store, specs, model, read(Path(tokens))))
    pd.concat(predicted, ignore_index=True).to_parquet(snakemake.output[0], index=False)
