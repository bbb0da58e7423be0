"""Numbers from run records and Fisher information.

Arguments have the same names everywhere. ``chosen``: the runs of the best learning rates, from
`subtune.analysis.scores.choose`. ``row_scores``: scores on parts of the dev rows, from
`subtune.analysis.predictions.row_scores`. ``sizes``: the runs on every number of training rows,
from `subtune.analysis.scores.in_every_metric`. ``sums``: ``task``, ``parameter``, ``size`` and
``information`` of every tensor. ``shares``: shares of a task's Fisher information, by component or
by layer of LayerNorm. ``printed``: a table that a paper prints. ``columns``: the score columns of
the tables. ``store``: the directory of the run records; a function that reads it raises a
`SubtuneError` if a record is missing or cannot be read.
"""
