"""Train a method again, on the rows of all folds.

In: chosen runs, tokens, model. Out: a run record, and a CSV with its id.
"""

from subtune.core.jobs import job, prepare, report, stop_requests

with job(snakemake.log[0]), stop_requests() as stopping:
    from pathlib import Path

    import pandas as pd

    from subtune.analysis import scores
    from subtune.data.load import read
    from subtune.models.encoder import model_of
    from subtune.runs import recording
    from subtune.training.checkpoints import Checkpoints

    device = prepare(snakemake.threads)
    store, wanted = Path(snakemake.params.store), snakemake.wildcards
    seconds = 60 * snakemake.resources.checkpoint_minutes
    checkpoints = Checkpoints(Path(snakemake.params.checkpoints), seconds, stopping)
    chosen = scores.read_scores(snakemake.input.chosen)
    chosen = chosen[(chosen["model"] == wanted.encoder) & (chosen["task"] == wanted.task)]
    spec = scores.refit_of(chosen, store, wanted.method)
    model = model_of(spec, snakemake.input.model).to(device)
    tokens = read(Path(snakemake.input.tokens))
    recording.train_and_record([spec], store, model, tokens, {}, report, None, checkpoints)
    names = {"model": wanted.encoder, "method": wanted.method, "fraction": 1.0, "scope": None}
    pd.DataFrame([{"run": spec.id} | names]).to_csv(snakemake.output[0], index=False)
    checkpoints.clear()
