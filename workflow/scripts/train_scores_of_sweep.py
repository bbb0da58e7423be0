"""Scores on the training rows. In: a sweep's records, tokens, model. Out: one row per run."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import datasets
    import pandas as pd
    import torch

    from subtune.malloc import keep_freed_memory
    from subtune.models import encoder
    from subtune.runs import rescoring
    from subtune.specs import RunSpec

    keep_freed_memory()
    torch.set_num_threads(snakemake.threads)
    specs = [RunSpec.model_validate_json(spec) for spec in snakemake.params.runs]
    model = encoder.load(Path(snakemake.input.model), specs[0].tokens.data.task.num_labels)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    rows = datasets.load_from_disk(snakemake.input.tokens)["train"]
    store = Path(snakemake.params.store)
    scores = [
        {"run": spec.id} | rescoring.score_on_training_rows(store, spec, model, rows)
        for spec in specs
    ]
    pd.DataFrame(scores).to_csv(snakemake.output[0], index=False)
