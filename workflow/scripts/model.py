"""Files of one pretrained model.

In: params spec, location. Out: a folder that loads without a network.
"""

from subtune.core.jobs import job

with job(snakemake.log[0], snakemake.resources.hub_cache):
    from pathlib import Path

    from subtune.models.fetch import fetch
    from subtune.selections.specs import ModelSpec

    spec = ModelSpec.model_validate_json(snakemake.params.spec)
    fetch(spec, snakemake.params.place, Path(snakemake.output[0]))
