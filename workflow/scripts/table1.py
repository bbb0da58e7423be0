"""Table 1. In: the component ranking. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.tables import layernorm, writing

    writing.write(layernorm.table1(pd.read_csv(snakemake.input[0])), snakemake.output)
