"""Predictions of a task's test rows. In: chosen runs, tokens, model. Out: logits, run by run."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import scores
    from subtune.core import hardware
    from subtune.data.load import read
    from subtune.models.load import load_model
    from subtune.runs import records, rescoring
    from subtune.selections.specs import Fit

    device = hardware.prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    wanted = snakemake.wildcards
    best = best[(best["model"] == wanted.encoder) & (best["task"] == wanted.task)]
    first = records.read_spec(store, best["run"].iloc[0])
    task, pooling = first.tokens.data.task, first.model.pooling
    predicting = best.dropna(subset=["value"])["run"].unique()
    specs = [records.read_spec(store, run) for run in predicting]
    # A regression on embeddings reads other tokens.
    specs = [spec for spec in specs if not isinstance(spec.recipe, Fit)]
    model = load_model(Path(snakemake.input.model), task.of_kind.head, task.outputs, pooling).to(
        device
    )
    tokens = read(Path(snakemake.input.tokens))
    predicted = rescoring.on_test_rows(store, specs, model, tokens)
    predicted.to_parquet(snakemake.output[0], index=False)
