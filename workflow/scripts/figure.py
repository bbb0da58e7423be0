"""One figure, as its paper declares it. In: the data that it reads. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    from subtune.figures import drawing
    from subtune.making import make

    asked = snakemake.params
    data = {argument: (name, snakemake.input[argument]) for argument, name in asked.data.items()}
    figure = make(asked.declaration, data, asked.facts, asked.left_out, style=asked.style)
    drawing.save(figure, snakemake.output)
