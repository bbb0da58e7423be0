"""Make the table of all runs. In: the sweeps' records. Out: csv, parquet, the columns' meanings."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.runs.tables import meanings, table_of_runs

    table = table_of_runs(Path(snakemake.params.store), snakemake.params.planned)
    table.to_csv(snakemake.output.csv, index=False)
    table.to_parquet(snakemake.output.parquet, index=False)
    meanings(list(table)).to_csv(snakemake.output.columns, index=False)
