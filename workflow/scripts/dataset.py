"""Rows of one task. In: params spec, glue_dir, files, directory. Out: Arrow, all its splits."""

from subtune.core.jobs import job, report

with job(snakemake.log[0], snakemake.resources.hub_cache):
    from subtune.data import files
    from subtune.data.load import load
    from subtune.selections.specs import DataSpec

    spec = DataSpec.model_validate_json(snakemake.params.spec)
    params = snakemake.params
    place = (params.glue_dir, params.files, params.directory)
    rows = load(spec, *place)
    files.require_version(spec, files.paths_of(spec.task, spec.source, spec.splits, *place))
    report(", ".join(f"{split}: {len(rows[split])} rows" for split in rows))
    rows.save_to_disk(snakemake.output[0])
