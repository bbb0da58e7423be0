"""Numbers from run records and Fisher information.

Arguments have the same names everywhere. ``chosen``: the runs of the best learning rates, from
`subtune.analysis.scores.choose`. ``row_scores``: scores of parts of their dev rows, from
`subtune.analysis.predictions.row_scores`. ``store``: the directory of the run records.
``columns``: the columns of the tables. A function that reads the store raises a `SubtuneError` if
a record is missing or cannot be read.
"""
