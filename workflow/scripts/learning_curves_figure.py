"""Learning curves of the chosen runs. In: chosen runs, all runs' curves. Out: png, pdf."""

from subtune.logs import job

with job(snakemake.log[0]):
    import pandas as pd

    from subtune.analysis import scores
    from subtune.figures import curves, drawing

    best = scores.best_of_seeds(scores.read_scores(snakemake.input.chosen))
    table = pd.read_csv(snakemake.input.curves, keep_default_na=False)
    shown = best[["model", "task", "method", "run"]].merge(table, on="run")
    figure = curves.learning_curves(shown, snakemake.params.titles, snakemake.params.style)
    drawing.save(figure, snakemake.output)
