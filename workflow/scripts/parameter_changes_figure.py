"""Mean |change| of single parameters. In: their changes. Out: png, pdf, one panel per model."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.figures import changes, drawing
    from subtune.tables.writing import title_of

    method, task = snakemake.params.shown["method"], snakemake.params.shown["task"]
    table = pd.read_csv(snakemake.input[0])
    own = table[(table["method"] == method) & (table["task"] == task)]
    title = f"{title_of(method)}, {snakemake.params.titles[task]}"
    figure = changes.parameter_changes(own, title, snakemake.params.style)
    drawing.save(figure, snakemake.output)
