"""Predictions of a task's test rows. In: chosen runs, tokens, model. Out: logits, run by run."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import datasets
    import torch

    from subtune.analysis import scores
    from subtune.malloc import keep_freed_memory
    from subtune.models import encoder
    from subtune.runs import records, rescoring

    keep_freed_memory()
    torch.set_num_threads(snakemake.threads)
    store = Path(snakemake.params.store)
    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    wanted = snakemake.wildcards
    best = best[(best["model"] == wanted.encoder) & (best["task"] == wanted.task)]
    specs = [records.read_spec(store, run) for run in best["run"].unique()]
    model = encoder.load(Path(snakemake.input.model), specs[0].tokens.data.task.num_labels)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    tokens = datasets.load_from_disk(snakemake.input.tokens)
    predicted = rescoring.on_test_rows(store, specs, model, tokens)
    predicted.to_parquet(snakemake.output[0], index=False)
