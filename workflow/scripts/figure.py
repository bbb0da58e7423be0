"""One figure, as its paper declares it. In: the data that it reads. Out: png, pdf."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    from subtune.exhibits.figures import drawing
    from subtune.exhibits.making import make

    asked = snakemake.params
    data = {argument: (name, snakemake.input[argument]) for argument, name in asked.data.items()}
    figure = make(asked.declaration, data, asked.facts, asked.left_out, style=asked.style)
    drawing.save(figure, snakemake.output)
