"""Rows of one task. In: params spec, glue_dir, files. Out: an Arrow folder of all splits."""

from subtune.logs import download_job, report

with download_job(snakemake.log[0], snakemake.resources.hub_cache):
    from subtune.data.load import load
    from subtune.specs import DataSpec

    spec = DataSpec.model_validate_json(snakemake.params.spec)
    rows = load(spec, glue_dir=snakemake.params.glue_dir, paths=snakemake.params.files)
    report(", ".join(f"{split}: {len(rows[split])} rows" for split in rows))
    rows.save_to_disk(snakemake.output[0])
