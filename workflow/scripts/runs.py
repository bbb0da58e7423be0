"""Every run of the configuration. In: the sweeps' records. Out: csv, parquet, what columns mean."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.runs import tidy

    table = tidy.table_of_runs(Path(snakemake.params.store), snakemake.params.planned)
    table.to_csv(snakemake.output.csv, index=False)
    table.to_parquet(snakemake.output.parquet, index=False)
    tidy.meaning(list(table)).to_csv(snakemake.output.columns, index=False)
