"""A paper's claims, computed. In: what they are asked of. Out: statistics and verdicts."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import claims, evidence, scores

    tables = {name: pd.read_csv(path) for name, path in snakemake.input.items() if name != "scores"}
    if "layers" in tables:
        tables["layers"] = tables["layers"].query("task != 'global'")
    ours = evidence.Evidence(scores.read_scores(snakemake.input.scores), **tables)
    paper = snakemake.params.paper
    table = claims.claims_table(paper, ours, evidence.printed_evidence(paper))
    table.to_csv(snakemake.output[0], index=False)
