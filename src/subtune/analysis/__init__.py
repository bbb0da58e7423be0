"""Computes scores, answers and Fisher information from run records.

These argument names have the same meaning in all modules:

* ``chosen``: the runs at the best learning rates, from `subtune.analysis.chosen_runs.choose_rates`
* ``sizes``: the runs on all training set sizes, scored in all metrics, from
  `subtune.analysis.run_scores.score_in_all_metrics`
* ``row_scores``: jackknife pseudo-values of scores, with one row per run, from
  `subtune.analysis.run_scores.tabulate_pseudo_values`
* ``columns``: the score columns of the experiment's tables (each has a task, a split and a metric)
* ``printed``: a table of numbers printed in a paper
* ``sums``: the Fisher information of each tensor, as a table with the columns ``task``,
  ``parameter``, ``size`` (number of entries) and ``information`` (summed over the entries)
* ``shares``: each component's or layer's share of a task's Fisher information
* ``store``: the directory of the run records. Functions with this argument raise a `SubtuneError`
  if a record is missing or cannot be read.

The columns of score tables are explained in ``columns.csv``.
"""
