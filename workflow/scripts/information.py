"""Fisher information by layer and component. In: the tasks' sums. Out: four tables."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import parameters

    tables = [pd.read_csv(path) for path in snakemake.input]
    sums = dict(zip(snakemake.params.tasks, tables, strict=True))
    layers = parameters.layernorm_by_layer(sums)
    layers.to_csv(snakemake.output.layers, index=False)
    total = parameters.global_by_layer(layers)
    total.to_csv(snakemake.output.layers_of_all_tasks, index=False)
    parameters.component_shares(sums).to_csv(snakemake.output.shares, index=False)
    by_parameter = parameters.parameter_information(sums)
    by_parameter.to_csv(snakemake.output.parameters, index=False)
