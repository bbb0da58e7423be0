"""Zip files for the GLUE server. In: chosen runs, test predictions. Out: zips, contents, form."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import scores
    from subtune.submission import checking, writing
    from subtune.tables.submission import contents
    from subtune.tables.writing import write

    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    predicted = {path: pd.read_parquet(path) for path in snakemake.input.predicted}
    parts = {}
    for submission, path in zip(snakemake.params.submissions, snakemake.output.zips, strict=True):
        runs = best[best["model"] == submission["model"]]
        runs = runs[runs["method"] == submission["method"]]
        own = {task: predicted[place] for task, place in submission["predicted"].items()}
        predictions, parts[submission["name"]] = writing.submission(own, runs)
        writing.write(Path(path), predictions)
        checking.check(Path(path))
    write(contents(parts), snakemake.output.contents)
    pd.DataFrame(snakemake.params.form).to_csv(snakemake.output.form, index=False)
