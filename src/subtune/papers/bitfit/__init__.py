"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import CONVERGED, FELL, drop_runs_with_mask
from subtune.analysis.statistics import (
    FEWEST_PAIRS,
    PAIR_KEYS,
    average_changes,
    best_rates,
    empty_values,
    match_family,
    method_scores,
    minus,
    rank_correlation,
)
from subtune.exhibits.figures import SEVERAL_SEEDS, declare_change_heat_map, draw_scores_by_size
from subtune.exhibits.finding_tables import METRICS_TABLE
from subtune.exhibits.output import (
    DIVERGED,
    EMPTY,
    ExperimentResults,
    Figure,
    Needs,
    Table,
    format_rate,
    format_scores,
)
from subtune.exhibits.score_tables import COMPARISON_CAPTION, dev_score_table, test_score_table
from subtune.methods import method_title
from subtune.papers.paper import Paper, read_claims

PART_OF_SPEECH = ("ptb", "ud_ewt")
SQUAD_TASKS = ("squad",)
# Methods in the figures on SQuAD and in the table of generalisation gaps.
COMPARED_IN_DETAIL = ("full", "bitfit")
GAP_TITLES = {"train": "train", "dev": "dev", "gap": "train − dev"}
NOT_RECORDED = "not recorded"


def on_squad(name: str, metric: str, title: str) -> Figure:
    """Declare a figure of SQuAD scores in one metric against the number of training examples."""
    return Figure(
        name,
        f"{title} on SQuAD against the number of training examples",
        f"{title} on SQuAD's dev set is plotted against the number of training examples "
        "(logarithmic axis). For each method and number, the best learning rate is used. Bands "
        f"show {SEVERAL_SEEDS}. The paper prints no numbers for its curves, so only reproduced "
        "curves are shown. It names version 1.0 of SQuAD; these runs use version 1.1.",
        make=lambda results: draw_scores_by_size(results, metric, COMPARED_IN_DETAIL),
        needs=Needs(methods=COMPARED_IN_DETAIL, tables=("sizes",)),
        tasks=SQUAD_TASKS,
    )


def gap_table(results: ExperimentResults) -> pd.DataFrame:
    """Build a table of training score, dev score and gap, reproduced and printed."""
    scores, column_titles = results["train_scores"], results.column_titles
    printed = results.printed("generalisation_gap")
    statements = printed.set_index(["method", "score"])["printed"]
    rows = []
    for (model, method), own in scores.groupby(["model", "method"], sort=False):
        for name, title in GAP_TITLES.items():
            texts = [_format_gap(own[own["column"] == key], name) for key in column_titles]
            statement = statements.get((method, name), EMPTY)
            rows.append([model, method_title(method), title, *texts, statement])
    columns = ["model", "method", "score", *column_titles.values(), "paper"]
    return pd.DataFrame(rows, columns=columns)


def _format_gap(rows: pd.DataFrame, name: str) -> str:
    recorded = rows[rows["train"].notna() | rows["dev"].isna()]
    if len(recorded) or rows.empty:
        return format_scores(recorded[name], 100)
    return format_scores(rows["dev"], 100) if name == "dev" else NOT_RECORDED


def learning_rates_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate BitFit's best learning rates by task, reproduced and printed."""
    runs = drop_runs_with_mask(results["chosen"])
    runs = runs[runs["method"] == "bitfit"].drop_duplicates(["model", "task"])
    rates = runs["learning_rate"].map(format_rate).where(runs["value"].notna(), DIVERGED)
    reproduced = runs.assign(rate=rates).pivot(index="task", columns="model", values="rate")
    reproduced = reproduced[runs["model"].unique()].add_prefix("this run: ")
    printed = results.printed("table6").set_index("task").map(format_rate).add_prefix("paper: ")
    table = pd.concat([reproduced, printed], axis="columns").reindex(results.task_titles)
    table.insert(0, "task", [*results.task_titles.values()])
    return table


EXHIBITS = (
    replace(
        dev_score_table("table1", "Dev scores, with other methods", ["table1"], train_rows=True),
        caption=f"{COMPARISON_CAPTION} The paper's rows include test scores. On QNLI, they are not "
        "quite comparable with those of Diff-Pruning, because GLUE has since replaced the test set "
        "(footnote 3).",
    ),
    test_score_table("table1_test", ["table1"], train_rows=True),
    dev_score_table("table2", "Dev scores by model", ["table2"]),
    declare_change_heat_map("figure1", "Changes in the biases, RTE", "bitfit", "rte"),
    dev_score_table("table3", "Subsets of the biases, and random parameters", ["table3"]),
    Table(
        "generalisation_gap",
        "Generalisation gap",
        "The table lists the training score, the dev score, and the gap (training score minus dev "
        "score), in percent, at the best learning rate and epoch of each method. The last column "
        "shows the accuracies stated in section 4 of the paper. *Not recorded* marks runs that "
        "were trained before an experiment asked for their training scores. In a new results "
        "directory, all runs have a training score.",
        make=gap_table,
    ),
    replace(
        dev_score_table("pos", "Part-of-speech tagging", ["pos"], printed_tasks=["ptb"]),
        caption=f"{COMPARISON_CAPTION} The paper's scores are for the Penn Treebank (PTB). They "
        "are stated in section 4.",
        tasks=PART_OF_SPEECH,
    ),
    on_squad("figure2", "exact_match", "Exact match"),
    replace(METRICS_TABLE, name="table5"),
    Table(
        "table6",
        "Best learning rates",
        "The table lists the learning rate with the best dev score for each task and model, in "
        "these runs and in the paper.",
        make=learning_rates_table,
    ),
    declare_change_heat_map("figure3", "Changes in the biases, CoLA", "bitfit", "cola"),
    declare_change_heat_map("figure4", "Changes in the biases, MRPC", "bitfit", "mrpc"),
    declare_change_heat_map("figure5", "Changes in the biases, STS-B", "bitfit", "stsb"),
    on_squad("figure6", "f1", "F1"),
)


def spread_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Compute ``std(first) - std(second)`` over seeds; `minus` compares only means."""
    wide = method_scores(chosen).reindex(columns=[first, second])
    spread = wide.dropna().groupby(level=["model", "column"]).std()
    return (spread[first] - spread[second]).dropna()


def agreement_of_models(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Compute the rank correlation between two models' values of `minus`, for each pair of models.

    `minus` cannot be used alone, because the claim compares models.
    """
    wide = minus(chosen, first, second).groupby(level=["model", "column"]).mean().unstack("model")
    pairs = {f"{a}, {b}": wide[[a, b]].dropna() for a, b in combinations(wide, 2)}
    agreements = {name: rank_correlation(*both.T.to_numpy()) for name, both in pairs.items()}
    return pd.Series(agreements, dtype=float).rename_axis("pair")


def minus_by_task_size(
    chosen: pd.DataFrame, train_rows: pd.DataFrame, first: str, second: str
) -> pd.Series:
    """Compute the rank correlation over tasks between `minus` and the training set size.

    `minus_by_rows` cannot be used, because each task has only one training set size in ``chosen``.
    The columns of ``train_rows`` are ``task`` and ``rows``.
    """
    deciding = chosen[chosen["decides"]]
    rows = train_rows.set_index("task")["rows"]
    task_of = deciding.drop_duplicates("column").set_index("column")["task"]
    wide = minus(deciding, first, second).unstack("column")
    sizes = rows.reindex(task_of.reindex(wide.columns)).to_numpy()
    has_rows = ~np.isnan(sizes)
    if has_rows.sum() < FEWEST_PAIRS:
        return empty_values()
    known = wide.loc[:, has_rows].dropna()
    return known.apply(lambda row: rank_correlation(sizes[has_rows], row), axis=1)


def change_beside_others(changes: pd.DataFrame, method: str, name: str, others: str) -> pd.Series:
    """Divide a parameter's change by the mean change of other parameters, per model and task.

    `changes_to_largest_other` cannot be used, because a change of 0 has no logarithm.
    """
    means = average_changes(changes, method)
    compared = [other for other in match_family(means, others) if other != name]
    if name not in means or not compared:
        return empty_values()
    return (means[name] / means[compared].mean(axis=1)).dropna()


def measure_minus(
    table: pd.DataFrame, measure: str, first: str | float, second: str | float
) -> pd.Series:
    """Compute ``first - second`` of two methods, or of a method and a number, in a column.

    Diverged runs are left out. `minus` cannot be used, because it reads only scores, and compares
    no method with a number.
    """
    wide = table.dropna(subset="gap").groupby([*PAIR_KEYS, "method"])[measure].mean().unstack()
    wide = wide.reindex(columns=[side for side in (first, second) if isinstance(side, str)])
    left, right = (wide[side] if isinstance(side, str) else side for side in (first, second))
    return pd.Series(left - right).dropna()


def epochs_left(chosen: pd.DataFrame, method: str, epochs: int) -> pd.Series:
    """Compute ``epochs - best_epoch`` if scores no longer rise; `minus` compares only scores."""
    if "curve" not in chosen:
        return empty_values()
    rows = drop_runs_with_mask(chosen[chosen["decides"]])
    rows = rows[(rows["method"] == method) & rows["curve"].isin([CONVERGED, FELL])]
    return epochs - rows.groupby(PAIR_KEYS)["best_epoch"].mean()


def log_rate_ratio_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, method: str
) -> pd.Series:
    """Compute ``log(reproduced / printed)`` of best rates; `minus_printed` compares only scores."""
    reproduced, papers = best_rates(chosen, method), best_rates(printed, method)
    is_unknown = reproduced.empty or papers.empty
    return empty_values() if is_unknown else np.log(reproduced / papers).dropna()


PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2022)",
    exhibits=EXHIBITS,
    # Table 3's random parameters in models of another size.
    more_methods="rand_uniform",
    claims=read_claims(
        __package__,
        spread_minus,
        agreement_of_models,
        minus_by_task_size,
        change_beside_others,
        measure_minus,
        epochs_left,
        log_rate_ratio_to_printed,
    ),
    printed_data={"train_rows": "train_rows"},
    printed_learning_rates=("bitfit", "table6"),
    scored_on_training_set=COMPARED_IN_DETAIL,
    tasks_apart=(*PART_OF_SPEECH, *SQUAD_TASKS),
)
