"""A paper's claims, tested. In: the data that they read. Out: statistics and verdicts."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune import papers
    from subtune.analysis.claims import claims_table
    from subtune.papers.experiments import claims_on, read
    from subtune.papers.printed import tables_like_ours

    ours = {name: read(name, path) for name, path in snakemake.input.items()}
    rows = snakemake.params.train_rows
    ours["train_rows"] = pd.DataFrame(rows.items(), columns=["task", "rows"])
    paper = papers.find(snakemake.params.paper)
    claims = claims_on(paper, snakemake.params.tasks)
    printed = [tables_like_ours(paper, averages=averages) for averages in (False, True)]
    table = claims_table(claims, ours, *printed, tasks_apart=paper.tasks_apart)
    table.to_csv(snakemake.output[0], index=False)
