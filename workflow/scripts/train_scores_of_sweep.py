"""Scores on the training rows. In: a sweep's records, tokens, model. Out: one row per run."""

from subtune.core.jobs import job, prepare

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs import recording, records

    device = prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    runs = records.runs_of_sweep(Path(snakemake.input.sweep))
    specs = [records.read_spec(store, runs[key]) for key in snakemake.params.planned]
    model = model_of(specs[0], snakemake.input.model).to(device)
    rows = read(Path(snakemake.input.tokens))["train"]
    scores = [
        {"run": spec.id} | recording.score_on_training_rows(store, spec, model, rows)
        for spec in specs
    ]
    pd.DataFrame(scores).to_csv(snakemake.output[0], index=False)
