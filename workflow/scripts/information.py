"""Fisher information by layer and component. In: the tasks' sums. Out: three tables."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import information

    tables = [pd.read_csv(path) for path in snakemake.input]
    sums = dict(zip(snakemake.params.tasks, tables, strict=True))
    information.layernorm_by_layer(sums).to_csv(snakemake.output.layernorm, index=False)
    shares = information.component_shares(sums)
    shares.to_csv(snakemake.output.shares, index=False)
    information.component_ranking(shares).to_csv(snakemake.output.components, index=False)
