"""Mean |change| of full fine-tuning. In: the chosen runs. Out: task × component × layer."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.analysis import changes, scores
    from subtune.runs import records

    chosen = scores.methods_only(scores.read_scores(snakemake.input[0]))
    full = chosen[(chosen["method"] == "full") & chosen["decides"]]
    store = Path(snakemake.params.store)
    tables = {
        task: [records.read_changes(store, run) for run in own["run"]]
        for task, own in full.groupby("task", sort=False)
    }
    changes.changes_by_component(tables).to_csv(snakemake.output[0], index=False)
