"""Train one sweep. In: tokens, model, rankings, searches. Out: run records, and a CSV of them.

A sweep that is asked to stop writes a checkpoint, and its next job continues from the checkpoint.
"""

from subtune.core.jobs import job, prepare, report, stop_requests

with job(snakemake.log[0]), stop_requests() as stopping:
    import json
    from pathlib import Path

    import pandas as pd

    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs import recording, records
    from subtune.selections.entries import read_ranks
    from subtune.selections.specs import PlannedRun
    from subtune.training.checkpoints import Checkpoints

    device = prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    seconds = 60 * snakemake.resources.checkpoint_minutes
    checkpoints = Checkpoints(Path(snakemake.params.checkpoints), seconds, stopping)
    planned = map(PlannedRun.model_validate_json, snakemake.params.planned)
    searches = map(Path, snakemake.input.searches)
    rates = {path.stem: json.loads(path.read_text())["learning_rate"] for path in searches}
    runs = {of.key: of.at(rates[of.search]) if of.search else of.run for of in planned}
    specs = [*runs.values()]
    missing = [spec for spec in specs if not records.is_recorded(store, spec.id)]
    report(f"{len(specs)} runs: {len(specs) - len(missing)} on record, {len(missing)} to train")
    if missing:
        model = model_of(specs[0], snakemake.input.model).to(device)
        tokens = read(Path(snakemake.input.tokens))
        rankings = {Path(path).stem: read_ranks(Path(path)) for path in snakemake.input.rankings}
        recording.train_and_record(
            specs,
            store,
            model,
            tokens,
            rankings,
            report,
            snakemake.resources.runs_at_once or None,
            checkpoints,
        )
    rows = [
        {"key": key, "run": spec.id} | records.read_outcome(store, spec.id)
        for key, spec in runs.items()
    ]
    pd.json_normalize(rows).to_csv(snakemake.output[0], index=False)
    checkpoints.clear()
