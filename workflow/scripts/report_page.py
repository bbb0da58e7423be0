"""The report. In: tables, figures, captions, runs. Out: one HTML page that needs nothing else."""

from subtune.core.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd
    import yaml

    from subtune.exhibits.report.page import exhibits_of, page, section

    config = yaml.safe_dump(snakemake.params.config, sort_keys=False, allow_unicode=True)
    sections = [section(**facts) for facts in snakemake.params.sections]
    answer = exhibits_of(snakemake.params.answer)
    html = page(answer, sections, pd.read_parquet(snakemake.input.runs), config)
    Path(snakemake.output[0]).write_text(html, encoding="utf-8")
