"""An experiment's tables and figures. In: its numbers. Out: csv, md, tex; png, pdf; and the claims,
printed scores and information that they are made of.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.exhibits.output import save_figure, write_table
    from subtune.papers.experiments import make, read_results

    about = snakemake.params.about
    results = read_results(about, dict(snakemake.input.items()))
    for name, path in zip(about["tables"], snakemake.output.numbers, strict=True):
        results[name].to_csv(path, index=False)
    for name, exhibit in about["exhibits"].items():
        write = save_figure if exhibit["style"] else write_table
        write(make(name, about, results), snakemake.output[name])
