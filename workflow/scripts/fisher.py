"""Fisher information of one task. In: tokens, model. Out: vectors' entries, tensors' sums."""

from subtune.core.jobs import job, prepare, report

with job(snakemake.log[0]):
    from pathlib import Path

    import safetensors.numpy

    from subtune.data.load import read
    from subtune.models import encoder
    from subtune.models.encoder import load_model
    from subtune.selections.specs import FisherSpec
    from subtune.training import fisher

    device = prepare(snakemake.threads)
    spec = FisherSpec.model_validate_json(snakemake.params.spec)
    task = spec.tokens.data.task
    directory, head = Path(snakemake.input.model), task.of_kind.head
    model = load_model(directory, head, task.outputs, spec.model.pooling).to(device)
    tokens = read(Path(snakemake.input.tokens))["train"]
    in_full = spec.in_full.names(encoder.shapes_of(model)) if spec.in_full else []
    information = fisher.fisher_information(
        model, tokens, task, spec.rows, spec.seed, in_full=in_full, labels=spec.labels
    )
    safetensors.numpy.save_file(information.entries, snakemake.output.entries)
    information.sums.to_csv(snakemake.output.sums, index=False)
    report(f"{task.name}: Fisher information over {spec.rows or len(tokens)} rows")
