"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import whole_methods
from subtune.analysis.statistics import (
    CELL,
    FEWEST_PAIRS,
    best_rates,
    match_names,
    mean_changes,
    method_scores,
    minus,
    no_values,
    rank_correlation,
)
from subtune.exhibits.figures import draw_scores_by_size
from subtune.exhibits.finding_tables import learning_rates_table
from subtune.exhibits.score_tables import gap_table
from subtune.papers.paper import Figure, Needs, Paper, Table, read_claims
from subtune.papers.shared import (
    COMPARED,
    SEVERAL_SEEDS,
    changes,
    dev_scores,
    metrics_of_tasks,
    test_scores,
)

PART_OF_SPEECH = ("ptb", "ud_ewt")
SQUAD = ("squad",)
# Methods of the figures on SQuAD and of the generalisation gap.
COMPARED_IN_DETAIL = ("full", "bitfit")


def on_squad(name: str, metric: str, title: str) -> Figure:
    """Return a figure of scores on SQuAD by the number of training examples, in one metric."""
    return Figure(
        name,
        f"{title} on SQuAD by number of training examples",
        f"{title} on SQuAD's dev set by the number of training examples, on a logarithmic axis, at "
        f"each method's best learning rate for that number. Bands are {SEVERAL_SEEDS}. The paper "
        "gives no numbers for its curves, so only ours are shown.",
        make=lambda results: draw_scores_by_size(results, metric, COMPARED_IN_DETAIL),
        needs=Needs(methods=COMPARED_IN_DETAIL, tables=("sizes",)),
        tasks=SQUAD,
    )


EXHIBITS = (
    dev_scores(
        "table1", "Dev scores, beside other methods and the paper's test scores", ["table1"]
    ),
    test_scores("table1_test", ["table1"]),
    dev_scores("table2", "Dev scores by model", ["table2"]),
    changes("figure1", "Change of the biases, RTE", "bitfit", "rte"),
    dev_scores("table3", "Parts of the biases, and random parameters", ["table3"]),
    Table(
        "generalisation_gap",
        "Generalisation gap: train minus dev",
        "Train score, dev score, and the gap (train minus dev), at each method's best learning "
        "rate and epoch. The last column has the accuracies that the text of section 4 of the "
        "paper mentions; the paper has no such table. Runs whose records have no train score "
        "are left out.",
        make=gap_table,
    ),
    replace(
        dev_scores("pos", "Part-of-speech tagging", ["pos"], printed_tasks=["ptb"]),
        caption=f"{COMPARED} The paper's scores are for the Penn Treebank (PTB), from the text of "
        "section 4, which does not name the split. UD-EWT is another data set, with other "
        "texts and more tags, for which the paper prints no scores.",
        tasks=PART_OF_SPEECH,
    ),
    on_squad("figure2", "exact_match", "Exact match"),
    metrics_of_tasks("table5"),
    Table(
        "table6",
        "Best learning rates",
        "The learning rate with the best dev score, by task and model, beside the paper's.",
        make=lambda results: learning_rates_table(results, "table6", method="bitfit"),
    ),
    changes("figure3", "Change of the biases, CoLA", "bitfit", "cola"),
    changes("figure4", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure5", "Change of the biases, STS-B", "bitfit", "stsb"),
    on_squad("figure6", "f1", "F1"),
)


def spread_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the standard deviation over seeds of one method minus that of another.

    `minus` does not fit: it compares means.
    """
    wide = method_scores(chosen).reindex(columns=[first, second])
    spread = wide.dropna().groupby(level=["model", "column"]).std()
    return (spread[first] - spread[second]).dropna()


def agreement_of_models(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return, for each pair of models, the rank correlation of their `minus` over columns.

    `minus` does not fit: the claim is about the likeness of models.
    """
    wide = minus(chosen, first, second).groupby(level=["model", "column"]).mean().unstack("model")
    pairs = {f"{a}, {b}": wide[[a, b]].dropna() for a, b in combinations(wide, 2)}
    return pd.Series(
        {name: rank_correlation(*both.T.to_numpy()) for name, both in pairs.items()}, dtype=float
    ).rename_axis("pair")


def minus_by_task_size(
    chosen: pd.DataFrame, train_rows: pd.DataFrame, first: str, second: str
) -> pd.Series:
    """Return, per model and seed, how `minus` correlates with training rows over tasks (by rank).

    `minus_by_rows` does not fit: each task has one number of training rows here.

    Args:
        train_rows: ``task`` and ``rows``.
    """
    deciding = chosen[chosen["decides"]]
    rows = train_rows.set_index("task")["rows"]
    task_of = deciding.drop_duplicates("column").set_index("column")["task"]
    wide = minus(deciding, first, second).unstack("column")
    sizes = rows.reindex(task_of.reindex(wide.columns)).to_numpy()
    has_rows = ~np.isnan(sizes)
    if has_rows.sum() < FEWEST_PAIRS:
        return no_values()
    known = wide.loc[:, has_rows].dropna()
    return known.apply(lambda row: rank_correlation(sizes[has_rows], row), axis=1)


def change_beside_others(changes: pd.DataFrame, method: str, name: str, others: str) -> pd.Series:
    """Return, per model and task, a parameter's change divided by the mean change of others.

    `changes_to_largest_other` does not fit: a change of 0 has no logarithm.
    """
    means = mean_changes(changes, method)
    compared = [other for other in match_names(means, others) if other != name]
    if name not in means or not compared:
        return no_values()
    return (means[name] / means[compared].mean(axis=1)).dropna()


def measure_minus(
    table: pd.DataFrame, measure: str, first: str | float, second: str | float
) -> pd.Series:
    """Return a method's values of a column minus those of another method.

    Diverged runs are left out. `minus` does not fit: it compares scores, and only methods.

    Args:
        measure: the column, such as ``gap``.
        first: a method, or a number.
        second: like ``first``.
    """
    if measure not in table:
        return no_values()
    if "decides" in table:
        rows = whole_methods(table[table["decides"]])
    else:
        rows = table.dropna(subset="gap")
    wide = rows.groupby([*CELL, "method"])[measure].mean().unstack()
    wide = wide.reindex(columns=[side for side in (first, second) if isinstance(side, str)])
    left, right = (wide[side] if isinstance(side, str) else side for side in (first, second))
    return pd.Series(left - right).dropna()


def rate_to_printed(chosen: pd.DataFrame, printed: pd.DataFrame, method: str) -> pd.Series:
    """Return the log ratio of a method's best learning rates to the printed ones of the same model.

    `minus_printed` does not fit: it compares scores.
    """
    ours, papers = best_rates(chosen, method), best_rates(printed, method)
    return no_values() if ours.empty or papers.empty else np.log(ours / papers).dropna()


PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2021)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, globals()),
    printed_data={"train_rows": "train_rows"},
    printed_learning_rates={"bitfit": "table6"},
    scored_on_training_rows=COMPARED_IN_DETAIL,
    tasks_apart=(*PART_OF_SPEECH, *SQUAD),
)
