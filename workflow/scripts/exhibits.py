"""An experiment's tables and figures.

In: its numbers. Out: csv, md, tex; png, pdf; and their data: claims, printed scores and
information.
"""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from subtune.papers.experiments import read_results, write_exhibit

    about = snakemake.params.about
    results = read_results(about, dict(snakemake.input.items()))
    for name, path in zip(about["tables"], snakemake.output.numbers, strict=True):
        results[name].to_csv(path, index=False)
    for name in about["exhibits"]:
        write_exhibit(name, about, results, snakemake.output[name])
