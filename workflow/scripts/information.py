"""Fisher information by layer and component. In: the tasks' sums. Out: two tables."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune import analysis

    tables = [pd.read_csv(path) for path in snakemake.input]
    sums = dict(zip(snakemake.params.tasks, tables, strict=True))
    analysis.layernorm_by_layer(sums).to_csv(snakemake.output.layernorm, index=False)
    analysis.component_ranking(sums).to_csv(snakemake.output.components, index=False)
