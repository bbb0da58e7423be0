"""Predictions of test rows. In: chosen runs, each task's tokens, model. Out: logits, run by run."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import scores
    from subtune.core import hardware
    from subtune.data.load import read
    from subtune.models.load import load_model
    from subtune.runs import records, rescoring
    from subtune.selections.specs import Fit

    device = hardware.prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    best = best[best["model"] == snakemake.wildcards.encoder].dropna(subset=["value"])
    predicted = [rescoring.NO_PREDICTIONS]
    for name, tokens in zip(snakemake.params.tasks, snakemake.input.tokens, strict=True):
        runs = best.loc[best["task"] == name, "run"].unique()
        specs = [records.read_spec(store, run) for run in runs]
        # A regression on embeddings reads other tokens.
        specs = [spec for spec in specs if not isinstance(spec.recipe, Fit)]
        if specs:
            task, pooling = specs[0].tokens.data.task, specs[0].model.pooling
            directory = Path(snakemake.input.model)
            model = load_model(directory, task.of_kind.head, task.outputs, pooling).to(device)
            predicted.append(rescoring.on_test_rows(store, specs, model, read(Path(tokens))))
    pd.concat(predicted, ignore_index=True).to_parquet(snakemake.output[0], index=False)
