"""Numbers from run records and Fisher information.

Arguments have the same names everywhere:

* ``chosen``: the runs at the best learning rates, from `subtune.analysis.chosen_runs.choose_rates`
* ``sizes``: the runs on every number of training rows, from
  `subtune.analysis.run_scores.in_every_metric`
* ``row_scores``: the jackknife's pseudo-values of runs' scores, a row per run, from
  `subtune.analysis.run_scores.row_scores`; indexed by run, they are called ``pseudo_values``
* ``columns``: the score columns of the experiment's tables
* ``printed``: a table that a paper prints
* ``sums``: ``task``, ``parameter``, ``size`` and ``information`` of every tensor
* ``shares``: shares of a task's Fisher information, by component or by layer of LayerNorm
* ``store``: the directory of the run records. A function that reads it raises a `SubtuneError` if a
  record is missing or cannot be read.

`columns.csv` explains the columns of tables of scores.
"""
