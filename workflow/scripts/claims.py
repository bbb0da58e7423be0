"""A paper's claims, computed. In: what they are asked of. Out: statistics and verdicts."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune import papers
    from subtune.analysis.claims import claims_table
    from subtune.exhibits.making import read

    tables = {name: read(name, path) for name, path in snakemake.input.items()}
    rows = snakemake.params.train_rows
    tables["train_rows"] = pd.DataFrame(rows.items(), columns=["task", "rows"])
    paper = papers.find(snakemake.params.paper).asked_on(snakemake.params.tasks)
    table = claims_table(paper, tables)
    table.to_csv(snakemake.output[0], index=False)
