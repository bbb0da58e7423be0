"""An experiment's tables and figures. In: its numbers. Out: csv, md, tex; png, pdf; and the claims,
printed scores and information that they are made of.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.exhibits.output import save_figure, write_table
    from subtune.papers.experiments import make
    from subtune.papers.results import further_tables, read_results

    about, files = snakemake.params.about, dict(snakemake.input.items())
    tables = further_tables(about, files)
    for (name, table), path in zip(tables.items(), snakemake.output.numbers, strict=True):
        table.to_csv(path, index=False)
        files[name] = path
    results = read_results(about, files)
    for name, exhibit in about["exhibits"].items():
        write = save_figure if exhibit["style"] else write_table
        write(make(name, about, results), snakemake.output[name])
