"""Scores on the training rows. In: a sweep's records, tokens, model. Out: one row per run."""

from subtune.core.jobs import job, prepare

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs import recording
    from subtune.selections.specs import RunSpec

    device = prepare(snakemake.threads)
    specs = [RunSpec.model_validate_json(spec) for spec in snakemake.params.runs]
    model = model_of(specs[0], snakemake.input.model).to(device)
    rows = read(Path(snakemake.input.tokens))["train"]
    store = Path(snakemake.params.store)
    scores = [
        {"run": spec.id} | recording.score_on_training_rows(store, spec, model, rows)
        for spec in specs
    ]
    pd.DataFrame(scores).to_csv(snakemake.output[0], index=False)
