"""Search for a learning rate. In: tokens, model, rankings. Out: run records, rates and scores.

A search that is asked to stop writes a checkpoint, and its next job continues from the checkpoint.
"""

from subtune.core.jobs import job, prepare, report, stop_requests

with job(snakemake.log[0]), stop_requests() as stopping:
    import json
    from pathlib import Path

    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs.recording import train_and_record
    from subtune.runs.search import search
    from subtune.selections.entries import read_ranks
    from subtune.selections.specs import SearchSpec
    from subtune.training.checkpoints import Checkpoints

    device = prepare(snakemake.threads)
    store = Path(snakemake.params.store)
    seconds = 60 * snakemake.resources.checkpoint_minutes
    checkpoints = Checkpoints(Path(snakemake.params.checkpoints), seconds, stopping)
    spec = SearchSpec.model_validate_json(snakemake.params.spec)
    model = model_of(spec.run, snakemake.input.model).to(device)
    tokens = read(Path(snakemake.input.tokens))
    rankings = {Path(path).stem: read_ranks(Path(path)) for path in snakemake.input.rankings}
    limits = snakemake.resources.runs_at_once or None, checkpoints

    def train(specs):
        """Train and record runs."""
        train_and_record(specs, store, model, tokens, rankings, report, *limits)

    found = search(spec, store, train)
    report(f"learning rate {found['learning_rate']:g} was found")
    Path(snakemake.output[0]).write_text(json.dumps(found, indent=2) + "\n")
    checkpoints.clear()
