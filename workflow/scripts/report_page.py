"""The report. In: tables, figures, captions, runs. Out: one self-contained HTML page."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd
    import yaml

    from subtune.exhibits.report import page

    config = yaml.safe_dump(snakemake.params.config, sort_keys=False, allow_unicode=True)
    runs = pd.read_parquet(snakemake.input.runs)
    html = page(snakemake.params.answer, snakemake.params.sections, runs, config)
    Path(snakemake.output[0]).write_text(html, encoding="utf-8")
