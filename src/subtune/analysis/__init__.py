"""Numbers from run records and Fisher information.

Arguments have the same names everywhere: ``chosen`` has the runs of the best learning rates, as
`subtune.analysis.scores.choose` returns them, and ``row_scores`` the scores of parts of their dev
rows, as `subtune.analysis.predictions` does. ``store`` is the directory of the run records, and
``columns`` are the tables' columns.
"""
