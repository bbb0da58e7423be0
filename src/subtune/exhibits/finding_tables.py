"""Tabulate chosen learning rates, significance tests, claims and rankings of components."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis import parameters, statistics
from subtune.analysis.candidates import describe_curves
from subtune.analysis.chosen_runs import (
    are_external,
    drop_runs_with_mask,
    pivot_methods,
    title_with_mask,
)
from subtune.analysis.claims import DOES_NOT_HOLD, HOLDS, NOT_PRINTED, UNDECIDED
from subtune.exhibits.output import (
    DIVERGED,
    EMPTY,
    ExperimentResults,
    StyledTable,
    format_interval,
    format_number,
    format_rate,
    wrap_text,
)
from subtune.exhibits.score_tables import select_printed_scores


def metrics_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate each task's metrics. Runs are chosen by the first metric."""
    rows = []
    for task in results.tasks.values():
        first, *others = task["metrics"].values()
        kinds = [split.removeprefix("validation_") for split in task["evaluation"]]
        if len(kinds) > 1:
            first = " / ".join(f"{kind} {first}" for kind in kinds)
        rows.append([task["title"], first, ", ".join(others) or EMPTY])
    return pd.DataFrame(rows, columns=["task", "metric", "also computed"])


def choices_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the chosen learning rate and epoch of each run, including masked runs."""
    chosen = results["chosen"]
    table = chosen[chosen["decides"] & ~are_external(chosen)]
    searched = table["plateau"].dropna()
    plateaus = searched.map(lambda rates: ", ".join(map(str, map(format_rate, rates))) or EMPTY)
    columns = {
        "model": table["model"],
        "task": table["task"].map(results.task_titles),
        "method": [title_with_mask(row) for row in table.to_dict("records")],
        "seed": table["seed"],
        "learning rate": table["learning_rate"],
        "plateau": plateaus.reindex(table.index, fill_value=EMPTY),
        "epoch": table["best_epoch"],
        "trained parameters": table["trainable"],
        "metric": table["metric"],
        "dev score": table["value"].round(4).astype(object).fillna(DIVERGED),
        "remarks": [describe_curves(row) for row in table.to_dict("records")],
        "run": table["run"],
    }
    choices = pd.DataFrame(columns)
    return choices if len(searched) else choices.drop(columns="plateau")


def learning_rates_table(results: ExperimentResults, printed: str, method: str) -> pd.DataFrame:
    """Tabulate the best learning rates of a method by task, reproduced and printed."""
    task_titles, runs = results.task_titles, drop_runs_with_mask(results["chosen"])
    runs = runs[runs["method"] == method].drop_duplicates(["model", "task"])
    table = pd.DataFrame({"task": [*task_titles.values()]})
    for model in runs["model"].unique():
        model_runs = runs[runs["model"] == model].set_index("task")
        rates = model_runs["learning_rate"].map(format_rate)
        rates = rates.where(model_runs["value"].notna(), DIVERGED)
        table[f"this run: {model}"] = [rates.get(task) for task in task_titles]
    papers = results.printed(printed).set_index("task")
    for model in papers:
        table[f"paper: {model}"] = [format_rate(papers[model].get(task)) for task in task_titles]
    return table


# Maps wrapped columns of the LaTeX table of claims to their widths, as fractions of the text width.
WIDE = {"claim": 0.25, "statistic": 0.35, "contradicted by": 0.2}
JUDGEMENTS = [HOLDS, DOES_NOT_HOLD, UNDECIDED]


def variance_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the variance of scores over seeds (``seeds - 1`` degrees of freedom) by task."""
    chosen = drop_runs_with_mask(results["chosen"])
    groups = chosen.groupby(["model", "column", "method"], sort=False)["value"]
    table = groups.agg(seeds="size", mean="mean", variance="var", standard_deviation="std")
    table = table[table["seeds"] > 1].reset_index().round(6)
    return table.astype({"mean": object}).fillna({"mean": DIVERGED})


def kruskal_wallis_table(results: ExperimentResults, methods: Sequence[str]) -> pd.DataFrame:
    """Compare two methods with the Kruskal–Wallis test, on reproduced and on printed scores.

    The test is computed on dev scores, on test scores, and on all of these scores together. The
    column ``p_paired`` is the p-value of Wilcoxon's test, which pairs the scores by task. The
    paper's table has the columns ``scores`` (names of the tables with the tested scores) and
    ``p_value``.
    """
    printed, printed_scores = results.printed("kruskal_wallis"), results.printed("scores")
    tables = [results.tables[name] for name in ("chosen", "test_scores") if name in results.tables]
    reproduced = [pivot_methods(table).reindex(columns=[*methods]).dropna() for table in tables]
    reproduced += [pd.concat(reproduced)] if len(reproduced) > 1 else []
    tested: list[tuple[str, Mapping[str, pd.Series] | pd.DataFrame, float | None]] = [
        (f"this run's {name.replace('table', 'table ')}", scores, None)
        for name, scores in zip(printed["scores"], reproduced, strict=False)
        if len(scores)
    ]
    for name, p_value in zip(printed["scores"], printed["p_value"], strict=True):
        rows = select_printed_scores(printed_scores, re.findall(r"table\d+", name))
        scores_of = {m: rows.loc[rows["method"] == m, "value"] for m in methods}
        tested.append((f"paper's {name}", scores_of, p_value))
    counts = [f"n_{method}" for method in methods]
    tests = []
    for name, scores, reported in tested:
        first, second = (scores[m].reset_index(drop=True) for m in methods)
        p_values = statistics.kruskal_wallis(first, second), statistics.wilcoxon(first - second)
        tests.append((name, len(first), len(second), *p_values, reported))
    return pd.DataFrame(tests, columns=["scores", *counts, "p_value", "p_paired", "reported"])


def component_table(results: ExperimentResults, printed: str) -> pd.DataFrame:
    """Tabulate the ranks of components by Fisher information, reproduced and printed."""
    total = parameters.component_ranking(results["component_shares"])
    ranks = results.printed(printed).set_index("component")["rank"]
    columns = {
        "rank": range(1, len(total) + 1),
        "component": total.index,
        "information": [f"{value:.4f}" for value in total],
        "paper's rank": [ranks.get(component, EMPTY) for component in total.index],
    }
    return pd.DataFrame(columns)


def information_table(results: ExperimentResults, methods: Sequence[str]) -> pd.DataFrame:
    """Rank methods, named as in `subtune.methods.LAYER_PARAMETERS`, by information and by score.

    There is one row per model, task and training set size. It shows how much lower the score is if
    the method with the most Fisher information is chosen. Diverged methods have no rank by score.
    """
    sizes, information = results["sizes"], results["parameter_information"]
    rows_of_methods = information[information["parameter"].isin(methods)]
    wide = rows_of_methods.pivot(index="task", columns="parameter", values="information")
    shares = wide.div(wide.sum(axis=1), axis=0)
    rows = []
    decide = sizes[sizes["decides"] & sizes["method"].isin(methods)]
    for (model, task, count), same in decide.groupby(["model", "task", "train_rows"], sort=False):
        scores = same.groupby("method")["value"].mean().dropna().sort_values(ascending=False)
        share = shares.loc[task].dropna().sort_values(ascending=False)
        loss = scores.max() - scores.get(share.index[0], float("nan"))
        rows.append(
            {
                "model": model,
                "task": results.task_titles[task],
                "training rows": f"{count:,}",
                "by information": ", ".join(f"{name} {value:.1%}" for name, value in share.items()),
                "by score": ", ".join(f"{name} {value:.4f}" for name, value in scores.items()),
                "choice scores less by": format_number(loss),
            }
        )
    return pd.DataFrame(rows)


def claims_table(claims: pd.DataFrame) -> StyledTable:
    """Tabulate the claims of a paper with their verdicts. Verdicts that are certain are bold."""
    rows = []
    for claim in claims.to_dict("records"):
        plural = "" if claim["units"] == 1 else "s"
        units = " × ".join(f"{part}{plural}" for part in str(claim["unit"]).split(" × "))
        contradicted_by = claim["contradicted_by"]
        rows.append(
            {
                "claim": claim["claim"],
                "verdict": claim["judged"],
                "judged by": claim["judged_by"],
                "this run": _format_statistic(claim, "ours", "cells", "judged"),
                "paper": _format_statistic(claim, "paper", "paper_cells", "paper_judged"),
                "verdict on the paper's numbers": claim["paper_judged"],
                "mean": format_number(claim["mean"], ".3f"),
                "95 % interval": format_interval(claim["low"], claim["high"], ".3f"),
                # For example, ``3 seeds`` or ``27 models × tasks``.
                "over": f"{claim['units']} {units}" if claim["units"] else EMPTY,
                "statistic": claim["statistic"],
                "printed in": claim["printed_in"],
                "contradicted by": EMPTY if pd.isna(contradicted_by) else contradicted_by,
            }
        )
    table = pd.DataFrame(rows)
    return StyledTable(table, bold=pd.DataFrame({"verdict": claims["is_certain"]}), wide=WIDE)


def format_claim_counts(papers: Mapping[str, Sequence[Path]]) -> str:
    """Format how many claims of each paper hold. ``papers`` maps citations to CSV files."""
    lines = []
    for citation, paths in papers.items():
        claims = pd.concat(map(pd.read_csv, paths))
        held, failed, is_open = (sum(claims["judged"] == judged) for judged in JUDGEMENTS)
        certain = claims["is_certain"].sum()
        places = ", ".join(str(path.parents[1]) for path in paths)
        main = claims[claims["is_main"]]
        counted = f"{held} hold, {failed} do not, {is_open} are undecided; certain: {certain}"
        lines += wrap_text(f"{citation}: of {len(claims)} claims, {counted}.")
        lines += wrap_text("  " + " ".join(f"{c.claim}: {c.judged}." for c in main.itertuples()))
        lines.append(f"    {places}")
    lines += wrap_text(
        "Each verdict uses the paper's own criterion. It is certain if the whole 95 % interval in "
        "claims.md agrees with it."
    )
    return "\n".join(lines)


def _format_statistic(claim: dict[str, Any], value: str, cells: str, judged: str) -> str:
    """Format the mean, the count of cells or the p-value on which a verdict is based."""
    if claim[judged] == UNDECIDED:
        return EMPTY
    if claim[judged] == NOT_PRINTED:
        return NOT_PRINTED
    if claim["judged_by"].startswith("at "):
        return f"{claim[value]:.0f} of {claim[cells]}"
    return format_number(claim[value], ".3f")
