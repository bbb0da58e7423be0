"""Token ids of one task. In: rows, model. Out: an Arrow folder of the same splits."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import datasets

    from subtune.data.tokens import tokenize

    rows = datasets.load_from_disk(snakemake.input.rows)
    tokens = tokenize(rows, Path(snakemake.input.model), snakemake.params.max_length)
    tokens.save_to_disk(snakemake.output[0])
