"""Figure 1. In: mean |change| by component and layer. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.figures import drawing, layernorm

    changes = pd.read_csv(snakemake.input[0])
    figure = layernorm.figure1(changes, snakemake.params.titles, snakemake.params.style)
    drawing.save(figure, snakemake.output)
