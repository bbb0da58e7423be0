"""Figure 4. In: LayerNorm's information by layer. Out: png, pdf, with the paper's numbers."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune import reported
    from subtune.figures import drawing, layernorm

    shares = pd.read_csv(snakemake.input[0])
    printed = reported.table("layernorm_figure4.csv")
    figure = layernorm.figure4(
        shares[shares["task"] == "global"],
        printed,
        len(snakemake.params.titles),
        snakemake.params.style,
    )
    drawing.save(figure, snakemake.output)
