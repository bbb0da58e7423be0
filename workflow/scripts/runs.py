"""Make the table of all runs. In: sweeps, searches. Out: csv, parquet, the columns' meanings."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.runs.tables import meanings, table_of_runs, with_runs

    finished = map(Path, snakemake.input.sweeps), map(Path, snakemake.input.searches)
    planned = with_runs(snakemake.params.planned, *finished)
    table = table_of_runs(Path(snakemake.params.store), planned)
    table.to_csv(snakemake.output.csv, index=False)
    table.to_parquet(snakemake.output.parquet, index=False)
    meanings(list(table)).to_csv(snakemake.output.columns, index=False)
