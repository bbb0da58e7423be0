"""Fisher information by layer and component. In: the tasks' sums. Out: four tables."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import information

    tables = [pd.read_csv(path) for path in snakemake.input]
    sums = dict(zip(snakemake.params.tasks, tables, strict=True))
    layers = information.layernorm_by_layer(sums)
    layers.to_csv(snakemake.output.layers, index=False)
    total = information.global_by_layer(layers)
    total.to_csv(snakemake.output.layers_of_all_tasks, index=False)
    information.component_shares(sums).to_csv(snakemake.output.shares, index=False)
    parameters = information.parameter_information(sums)
    parameters.to_csv(snakemake.output.parameters, index=False)
