"""A paper's claims as a checklist. In: statistics and verdicts. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.tables import claims, writing

    table = claims.checklist(pd.read_csv(snakemake.input[0]))
    emphasis = writing.Emphasis(bold=claims.told(table), wide=claims.WIDE)
    writing.write(table, snakemake.output, emphasis)
