"""Tabulate metrics, chosen learning rates, significance tests between methods, and claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.candidates import describe_curves
from subtune.analysis.chosen_runs import are_external, title_with_mask
from subtune.analysis.claims import (
    DOES_NOT_HOLD,
    EQUIVALENCE_MARGINS,
    HOLDS,
    NOT_PRINTED,
    UNDECIDED,
)
from subtune.analysis.run_scores import PLATEAU
from subtune.analysis.statistics import paired_tests
from subtune.exhibits.answer_tables import REMARKS
from subtune.exhibits.output import (
    DIVERGED,
    EMPTY,
    ExperimentResults,
    Needs,
    StyledTable,
    Table,
    format_interval,
    format_number,
    format_rate,
    wrap_text,
)
from subtune.methods import method_title


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


METRICS_TABLE = Table(
    "metrics",
    "Metrics",
    "The first metric of each task selects epochs and learning rates. The other metrics are only "
    "reported.",
    make=metrics_table,
)


def choices_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the chosen learning rate and epoch of each run, including masked runs."""
    chosen = results["chosen"]
    table = chosen[chosen["decides"] & ~are_external(chosen)]
    searched = table["plateau"].dropna()
    plateaus = searched.map(lambda rates: ", ".join(map(format_rate, rates)) or EMPTY)
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


CHOICES = Table(
    "choices",
    "Chosen learning rates and epochs",
    "For every score in the other tables, the table lists the learning rate, the best epoch and "
    f"the run. The column 'plateau' lists the learning rates that score at most {PLATEAU} below "
    "the best one. " + REMARKS,
    make=choices_table,
)


def paired_tests_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate the tests of all pairs of methods, with the titles of methods."""
    tests = paired_tests(results["chosen"])
    titles = {name: tests[name].map(method_title) for name in ("first", "second")}
    return tests.assign(**titles).rename(columns=lambda name: name.replace("_", " "))


PAIRED_TESTS = Table(
    "paired_tests",
    "Comparison of all pairs of methods",
    "The table compares methods two at a time. Their scores are paired by model and task; the two "
    "dev sets of MNLI count as two tasks. The table lists the mean difference (first method minus "
    "second method) and the two-sided p-value of Wilcoxon's signed-rank test, uncorrected and "
    "with Holm's correction over all pairs. If tasks have metrics with different units, only the "
    "scores in built-in metrics are tested.",
    make=paired_tests_table,
    needs=Needs(questions=2),
)
# Maps wrapped columns of the LaTeX table of claims to their widths, as fractions of the text width.
WIDE = {"claim": 0.25, "statistic": 0.35, "contradicted by": 0.2}
JUDGEMENTS = [HOLDS, DOES_NOT_HOLD, UNDECIDED]


def claims_table(claims: pd.DataFrame) -> StyledTable:
    """Tabulate the claims of a paper with their verdicts. Verdicts that are certain are bold."""
    rows = []
    for claim in claims.to_dict("records"):
        plural = "" if claim["units"] == 1 else "s"
        units = " × ".join(f"{part}{plural}" for part in str(claim["unit"]).split(" × "))
        contradicted_by, over = claim["contradicted_by"], f"{claim['units']} {units}"
        if claim["one_answer"]:
            over += f" (one answer in {claim['one_answer']} of the compared numbers)"
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
                "over": over if claim["units"] else EMPTY,
                "statistic": claim["statistic"],
                "printed in": claim["printed_in"],
                "contradicted by": EMPTY if pd.isna(contradicted_by) else contradicted_by,
            }
        )
    table = pd.DataFrame(rows)
    return StyledTable(table, bold=pd.DataFrame({"verdict": claims["is_certain"]}), wide=WIDE)


CLAIMS = Table(
    "claims",
    "Claims",
    "The table tests the paper's claims on these runs and on the printed numbers. Only the "
    "paper's methods, dev sets and tasks are used, as far as they were run. The paper's own "
    "criterion decides whether a claim holds: a mean, a number of tasks, or the p-value of a "
    "test. A claim without runs is undecided. If printed numbers contradict a claim, the last "
    "column shows them. A verdict is bold (certain) if the whole 95 % interval of the mean agrees "
    "with it. The interval is computed over seeds if there are at least three, otherwise over "
    "tasks if there are at least three; the two dev sets of MNLI count as two tasks. With 'seeds × "
    "examples', it also contains the uncertainty due to the number of dev examples. For a claim "
    "that a method is better, any positive difference is enough. In claims that it is the same or "
    f"no less, score differences below {EQUIVALENCE_MARGINS['score']} count as ties, except in "
    "claims of the form 'best on k of n tasks' and in claims that state an amount. Ratios within "
    f"{100 * EQUIVALENCE_MARGINS['ratio']:g} % of 1 count as equal. Parameters are counted without "
    "the classifier. A diverged method counts as the worst. 'One answer' counts the numbers that "
    "depend on runs with the same prediction for every example, which have learned nothing.",
    make=lambda results: claims_table(results["claims"]),
    needs=Needs(tables=("claims",)),
)


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
