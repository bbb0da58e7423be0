"""Fisher information of one task.

In: tokens, model. Out: information of vectors' entries, and sums of tensors.
"""

from subtune.core.jobs import job, prepare, report

with job(snakemake.log[0]):
    from pathlib import Path

    import safetensors.numpy

    from subtune.data.load import read
    from subtune.models.encoder import model_of, shapes_of
    from subtune.selections.specs import FisherSpec
    from subtune.training import fisher

    device = prepare(snakemake.threads)
    spec = FisherSpec.model_validate_json(snakemake.params.spec)
    task = spec.tokens.data.task
    model = model_of(spec, snakemake.input.model).to(device)
    tokens = read(Path(snakemake.input.tokens))["train"]
    in_full = spec.in_full.names(shapes_of(model)) if spec.in_full else []
    information = fisher.fisher_information(
        model, tokens, task, spec.rows, spec.seed, in_full=in_full, labels=spec.labels
    )
    safetensors.numpy.save_file(information.entries, snakemake.output.entries)
    information.sums.to_csv(snakemake.output.sums, index=False)
    report(f"{task.name}: Fisher information over {spec.rows or len(tokens)} rows")
