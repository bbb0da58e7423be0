"""Computes scores, answers and Fisher information from run records.

These argument names have the same meaning in all modules:

* ``chosen``: the runs at the best learning rates, from `subtune.analysis.chosen_runs.choose_rates`
* ``sizes``: the runs on all training set sizes, from
  `subtune.analysis.run_scores.score_in_all_metrics`
* ``row_scores``: the jackknife pseudo-values of each run's score, one row per run, from
  `subtune.analysis.run_scores.compute_row_scores`. The same table indexed by run is
  ``pseudo_values``.
* ``columns``: the score columns of the experiment's tables
* ``printed``: a table that a paper prints
* ``sums``: the Fisher information of each tensor, with the columns ``task``, ``parameter``,
  ``size`` (number of entries) and ``information`` (summed over the entries)
* ``shares``: each component's or layer's share of a task's Fisher information
* ``store``: the directory of the run records. A function that reads it raises a `SubtuneError` if a
  record is missing or cannot be read.

``columns.csv`` explains the columns of the tables of scores.
"""
