"""One table, as its paper declares it. In: the data that it reads. Out: csv, md, tex."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.exhibits.tables import writing
    from subtune.papers.experiments import make

    made = make(snakemake.wildcards.exhibit, snakemake.params.declaration, snakemake.input)
    writing.write(made, snakemake.output)
