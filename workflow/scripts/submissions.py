"""Zip files for the GLUE server. In: chosen runs, test predictions. Out: zips, contents, form."""

from subtune.core.jobs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune import glue_server
    from subtune.analysis import scores
    from subtune.exhibits.tables import writing
    from subtune.papers.shared import SUBMISSION

    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    predicted = {path: pd.read_parquet(path) for path in snakemake.input.predicted}
    parts = []
    for submission, path in zip(snakemake.params.submissions, snakemake.output.zips, strict=True):
        runs = best[best["model"] == submission["model"]]
        runs = runs[runs["method"] == submission["method"]]
        predictions, part = glue_server.submission(predicted[submission["predicted"]], runs)
        glue_server.write_zip(Path(path), predictions)
        parts.append(part.assign(submission=f"{submission['name']}.zip"))
    writing.write(
        SUBMISSION.make({"submission": pd.concat(parts, ignore_index=True)}),
        snakemake.output.contents,
    )
    pd.DataFrame(snakemake.params.form).to_csv(snakemake.output.form, index=False)
