"""Token ids of one task. In: params spec, rows, model. Out: an Arrow folder of splits."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.data.load import read, tokenize
    from subtune.selections.specs import TokensSpec

    spec = TokensSpec.model_validate_json(snakemake.params.spec)
    rows = read(Path(snakemake.input.rows))
    model = Path(snakemake.input.model)
    settings = spec.max_length, spec.doc_stride, spec.apart
    tokens = tokenize(spec.data.task, rows, model, *settings)
    tokens.save_to_disk(snakemake.output[0])
