"""One figure, as its paper declares it. In: the data that it reads. Out: png, pdf."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.exhibits.figures import drawing
    from subtune.papers.experiments import make

    made = make(snakemake.wildcards.exhibit, snakemake.params.declaration, snakemake.input)
    drawing.save(made, snakemake.output)
