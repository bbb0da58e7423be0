"""One table, as its paper declares it. In: the data that it reads. Out: csv, md, tex."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    from subtune.exhibits.making import make
    from subtune.exhibits.tables import writing

    asked = snakemake.params
    data = {argument: (name, snakemake.input[argument]) for argument, name in asked.data.items()}
    made = make(asked.declaration, data, asked.facts, asked.left_out)
    writing.write(made, snakemake.output)
