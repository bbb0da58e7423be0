"""Entries ranked by Fisher information. In: the tasks' Fisher files. Out: each entry's rank."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import safetensors.numpy

    from subtune.selections.entries import rank_files
    from subtune.selections.kind import WholeTensors

    of = WholeTensors.model_validate_json(snakemake.params.of)
    ranks = rank_files(of, [Path(path) for path in snakemake.input])
    safetensors.numpy.save_file(ranks, snakemake.output[0])
