"""The report. In: tables, figures, captions, runs. Out: one HTML page that needs nothing else."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd
    import yaml

    from subtune.analysis import scores
    from subtune.report.page import Exhibit, Section, page

    sections = [
        Section(
            name=section["name"],
            paper=section["paper"],
            exhibits=[
                Exhibit(
                    name=exhibit["name"],
                    title=exhibit["title"],
                    caption=" ".join(Path(exhibit["caption"]).read_text(encoding="utf-8").split()),
                    files=[Path(path) for path in exhibit["files"]],
                )
                for exhibit in section["exhibits"]
            ],
            scores=scores.read_scores(section["scores"]),
            curves=pd.read_csv(section["curves"], dtype={"run": str}),
        )
        for section in snakemake.params.sections
    ]
    config = yaml.safe_dump(snakemake.params.config, sort_keys=False, allow_unicode=True)
    html = page(sections, pd.read_parquet(snakemake.input.runs), config)
    Path(snakemake.output[0]).write_text(html, encoding="utf-8")
