"""Mean |change| of single parameters. In: the chosen runs. Out: a row per parameter and layer."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import changes, scores
    from subtune.runs import records

    chosen = scores.methods_only(scores.read_scores(snakemake.input[0]))
    chosen = chosen[chosen["decides"]]
    store = Path(snakemake.params.store)
    parts = [pd.DataFrame(columns=["model", "method", "task", "parameter", "layer", "change"])]
    wanted = {(shown["method"], shown["task"]) for shown in snakemake.params.shown.values()}
    for (model, method, task), own in chosen.groupby(["model", "method", "task"], sort=False):
        if (method, task) in wanted:
            tables = [records.read_changes(store, run) for run in own["run"]]
            part = changes.changes_by_parameter(tables)
            parts.append(part.assign(model=model, method=method, task=task))
    pd.concat(parts).to_csv(snakemake.output[0], index=False)
