"""What claims are asked of, and how: numbers in which 0 means no difference.

Each statistic reads tables of numbers, ours or a paper's, and returns a series with a number per
cell: its index says of which model, column of the tables or task, and seed, as far as the table
tells them apart. They are differences of scores or of shares, rank correlations, and logarithms of
ratios. Where a table lacks what is asked for, the series is empty.

Methods of a family are named by a pattern, which matches their names from the start.
"""

from subtune.analysis.statistics.cells import rank_correlation
from subtune.analysis.statistics.changes import (
    change_and_score,
    change_beside_others,
    change_to_largest_other,
    changes_to_largest_other,
)
from subtune.analysis.statistics.choices import (
    epochs_before,
    parameters_of_families,
    rate_to,
    rate_to_printed,
)
from subtune.analysis.statistics.differences import (
    best_minus,
    best_on_average_minus,
    distance_to_printed,
    family_minus,
    minus,
    minus_on_both,
    minus_printed,
    spread_minus,
    worst_minus,
)
from subtune.analysis.statistics.gaps import gap_minus, gap_under, train_minus
from subtune.analysis.statistics.information import (
    bias_minus_weight,
    rank_of_layers,
    ranks_first,
    share_to_largest_other,
)
from subtune.analysis.statistics.masks import (
    fraction_minus_whole,
    scope_minus,
    whole_minus_fraction,
)
from subtune.analysis.statistics.sizes import (
    minus_by_rows,
    minus_on_fewest_rows,
    minus_on_most_rows,
)
from subtune.analysis.statistics.trends import agreement_of_models, minus_by_size

__all__ = [
    "agreement_of_models",
    "best_minus",
    "best_on_average_minus",
    "bias_minus_weight",
    "change_and_score",
    "change_beside_others",
    "change_to_largest_other",
    "changes_to_largest_other",
    "distance_to_printed",
    "epochs_before",
    "family_minus",
    "fraction_minus_whole",
    "gap_minus",
    "gap_under",
    "minus",
    "minus_by_rows",
    "minus_by_size",
    "minus_on_both",
    "minus_on_fewest_rows",
    "minus_on_most_rows",
    "minus_printed",
    "parameters_of_families",
    "rank_correlation",
    "rank_of_layers",
    "ranks_first",
    "rate_to",
    "rate_to_printed",
    "scope_minus",
    "share_to_largest_other",
    "spread_minus",
    "train_minus",
    "whole_minus_fraction",
    "worst_minus",
]
